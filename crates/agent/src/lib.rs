//! Agents: a deterministic state machine that decides, and a driver that performs its steps.
//!
//! - [`run`] is the state machine: a value that returns the next step.
//! - The driver performs the steps: model calls, tool calls through the guard, hooks, session commits and events.
//! - [`Agent`] is a definition, [`RunBuilder`] prepares one run of it, and [`RunStream`] yields the events of that
//!   run.

mod agent;
mod approval;
mod budget;
pub mod context;
mod control;
mod driver;
mod error;
mod handoff;
pub mod hook;
pub mod instructions;
pub mod journal;
mod on_limit;
mod outcome;
pub mod run;
mod run_builder;
mod shared_state;
mod stream;
pub mod subagent;
pub mod team;
mod watched;

pub use agent::Agent;
pub use agent::builder::AgentBuilder;
pub use approval::ApprovalMode;
pub use control::{RunHandle, RunHandleError, UserInput};
pub use error::{BuildError, Error};
pub use handoff::{Handoff, HistoryPolicy};
pub use on_limit::OnLimit;
pub use outcome::{RunOutcome, RunResult, SuspendedRun, SuspendedRunError};
pub use provost_tool::trace;
pub use run::{LimitContext, LimitDecision};
pub use run_builder::{ContextPreview, HostContext, ParentAgent, RunBuilder};
pub use stream::RunStream;
pub use subagent::{AgentRef, FanOut, HookInheritance, Subagent};
pub use team::Team;
