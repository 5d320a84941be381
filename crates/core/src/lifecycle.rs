//! Life cycles of durable work: the states of a task, a run, a step, an input, an approval and a delivery.
//!
//! Every life cycle is a total function `next(state, event)`: each pair of state and event is either a next state or
//! [`Illegal`]. A test checks each table without a database.
//!
//! Invariant: nothing here performs I/O, reads a clock or draws a random number; time and chance come in as arguments.

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
    ApprovalEvent, ApprovalKind, ApprovalState, Fallback, Grant, Resolution, check_plan, plan_hash,
};
pub use attempt::{AttemptStatus, Strategy};
pub use delivery::{Abilities, DeliveryEvent, DeliveryState, LostSend, give_up_at, next_send};
pub use error::{Illegal, UnknownWord, WorkError};
pub use input::{DeliveryOutcome, InputEvent, InputState, Interaction};
pub use run::{ParkedFor, RunEvent, RunKind, RunPhase, RunState, RunStatus};
pub use step::{ExpiryAction, Loss, OpenStep, StepKind, StepState, at_expiry};
pub use task::{EndedRun, TaskEvent, TaskState, settle, task_event};
pub use vote::{Ballot, CastVote, LOCAL_PRINCIPAL, Poll};
pub use webhook_delivery::{PostEvent, PostState, RetryWindow, next_post, post_gives_up_at};

#[cfg(test)]
mod tests;
