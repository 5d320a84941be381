//! State machines of durable work: tasks, runs, steps, inputs, approvals and deliveries.
//!
//! Each state machine is a total function `apply(state, transition)`: every pair gives either the next state or
//! [`InvalidTransition`]. Tests check every table without a database.
//!
//! Invariant: this module does no I/O, reads no clock and draws no random numbers. Callers pass the time and the
//! random value as arguments.

mod approval;
mod attempt;
mod delivery;
pub(crate) mod error;
mod input;
mod run;
mod step;
mod task;
mod vote;
mod webhook_delivery;

pub use approval::{
    ApprovalKind, ApprovalResult, ApprovalState, ApprovalTimeoutAction, ApprovalTransition,
    GrantScope, check_plan, plan_hash,
};
pub use attempt::{AttemptReason, AttemptStatus};
pub use delivery::{
    ChannelCapabilities, DeliveryState, DeliveryTransition, UncertainSendAction, delivery_deadline,
    next_delivery_at,
};
pub use error::{InvalidTransition, ParseEnumError, RequestError};
pub use input::{InputKind, InputOutcome, InputState, InputTransition, InteractionState};
pub use run::{JoinMode, RunKind, RunPhase, RunState, RunStatus, RunTransition, WaitReason};
pub use step::{
    InFlightStep, LeaseExpiryAction, LostWorkerContext, StepKind, StepState, StepTransition,
    on_lease_expired,
};
pub use task::{
    FinishedRun, TaskState, TaskTransition, task_state_after_run, task_transition_after_run,
};
pub use vote::{ApprovalVotes, LOCAL_PRINCIPAL, Vote, VoteResult};
pub use webhook_delivery::{
    RetryWindow, WebhookDeliveryState, WebhookDeliveryTransition, next_webhook_attempt_at,
    webhook_delivery_deadline,
};

#[cfg(test)]
mod tests;
