//! The words and machines of durable work: what a task, a run, a step, an input, an approval and a delivery may go through.
//!
//! Every life cycle is a total function `next(state, event)`: each pair of state and event is either a next state or
//! [`Illegal`]. Decisions that the engine takes inside a transaction are tables here too, so that they can be checked without
//! a database.
//!
//! Invariant: nothing here performs I/O, reads a clock or draws a random number; time and chance come in as arguments.

mod approval;
mod attempt;
mod ballot;
mod class;
mod command;
mod delivery;
mod digest;
mod effect;
mod error;
mod input;
mod key;
mod lease;
mod name;
mod outcome;
mod policy;
mod post;
mod queue;
mod retry;
mod run;
mod step;
mod task;
pub(crate) mod word;

pub use approval::{
    ApprovalEvent, ApprovalKind, ApprovalState, Fallback, Grant, Resolution, check_plan, plan_hash,
};
pub use attempt::{AttemptStatus, Strategy};
pub use ballot::{Ballot, CastVote, LOCAL_PRINCIPAL, Poll};
pub use class::{Admission, Breaker, ClassKey, Health};
pub use command::{AgentCommand, InputProvenance, ProvenanceKind, ReplyTarget, RoutingContext};
pub use delivery::{Abilities, DeliveryEvent, DeliveryState, LostSend, give_up_at, next_send};
pub use digest::{body_hash, canonical_json, sha256_hex};
pub use effect::{EffectClass, OnUnknown, ProbeAnswer, Recovery};
pub use error::{Illegal, UnknownWord, WorkError};
pub use input::{DeliveryOutcome, InputEvent, InputState, Interaction};
pub use key::{
    ChildIds, EffectKey, child_ids_of_call, child_run_id, child_task_id, heir_run_id, send_key,
};
pub use lease::Epoch;
pub use name::{Namespace, SessionName};
pub use outcome::{FailureSource, OutcomeCode, RetryClass, Vote};
pub use policy::{
    Ask, Decision, ExecPolicy, Host, PolicyError, PolicyPatch, Resources, RuntimeType, Security,
    Supported, WorkspaceAccess, decide,
};
pub use post::{PostEvent, PostState, RetryWindow, next_post, post_gives_up_at};
pub use queue::{
    DropPolicy, InputAction, Overflow, QueueMode, QueueOverride, QueueSettings, Situation,
};
pub use retry::{Jitter, RetryPolicy};
pub use run::{ParkedFor, RunEvent, RunPhase, RunState, RunStatus};
pub use step::{ExpiryAction, Loss, OpenStep, StepKind, StepState, at_expiry};
pub use task::{AfterRun, DropReason, EndedRun, TaskEvent, TaskState, settle, task_event};

#[cfg(test)]
mod tests;
