//! Agents: a pure machine that decides, one driver that acts.
//!
//! - [`run`] is the machine: a value that says what to do next.
//! - The driver performs its steps: model calls, tools through the guard, hooks, session commits, events.
//! - [`Agent`] is a definition, [`RunBuilder`] one use of it, [`RunStream`] that use while it lives.

mod agent;
mod approval;
mod builder;
pub mod child;
pub mod context;
mod drive;
mod error;
mod hand_off;
mod handle;
pub mod hook;
pub mod journal;
mod limit;
mod outcome;
mod output;
mod pot;
pub mod prompt;
mod request;
pub mod run;
mod shared_state;
mod stream;
pub mod team;
mod watched;

pub use agent::Agent;
pub use approval::OnApproval;
pub use builder::AgentBuilder;
pub use child::{AgentRef, AgentSlot, Delegate, FanOut, HooksFor};
pub use error::{BuildError, Error};
pub use hand_off::{HandOffTo, HistoryPolicy};
pub use handle::{HandleError, RunHandle, UserInput};
pub use outcome::{Outcome, RunResult, Suspended, SuspendedError};
pub use provost_tool::trace;
pub use request::{ContextPreview, RunBuilder};
pub use run::{AtLimit, LimitDecision, LimitQuestion};
pub use stream::RunStream;
pub use team::Team;
