//! Agents: a pure machine that decides, one driver that acts.
//!
//! - [`run`] is the machine: a value that says what to do next.
//! - The driver performs its steps: model calls, tools through the guard, hooks, session commits, events.
//! - [`Agent`] is a definition, [`RunBuilder`] one use of it, [`RunStream`] that use while it lives.

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
pub use approval::OnApproval;
pub use control::{HandleError, RunHandle, UserInput};
pub use error::{BuildError, Error};
pub use handoff::{HandOffTo, HistoryPolicy};
pub use outcome::{Outcome, RunResult, Suspended, SuspendedError};
pub use provost_tool::trace;
pub use run::{AtLimit, LimitDecision, LimitQuestion};
pub use run_builder::{ContextPreview, RunBuilder};
pub use stream::RunStream;
pub use subagent::{AgentRef, AgentSlot, Delegate, FanOut, HooksFor};
pub use team::Team;
