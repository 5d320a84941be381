//! Agents that work together, instructions, limits and other parts of an agent's definition.
//!
//! ```
//! use provost::Agent;
//! use provost::agent::Subagent;
//! use provost::testing::ScriptedModel;
//!
//! let researcher = Agent::builder("researcher", ScriptedModel::new()).build()?;
//! let lead = Agent::builder("lead", ScriptedModel::new())
//!     .subagent(Subagent::new(&researcher, "Finds one fact"))
//!     .build()?;
//! assert_eq!(lead.tools()[0].spec().name(), "researcher");
//! # Ok::<_, provost::BuildError>(())
//! ```
//!
//! - [`Subagent`]: the model calls another agent as a tool.
//! - [`FanOut`]: the model runs another agent on many tasks in parallel.
//! - [`Handoff`]: another agent continues the conversation.
//! - [`Team`]: a lead agent starts teammates, which share messages and a task board.
//! - [`instructions`]: templates for the instructions of an agent.

pub use provost_agent::team::{MailFuture, Mailbox, MemoryMailbox};
pub use provost_agent::{
    AgentRef, ContextPreview, FanOut, Handoff, HistoryPolicy, HookInheritance, LimitContext,
    LimitDecision, RunHandleError, Subagent, SuspendedRunError, Team, UserInput, instructions,
};
