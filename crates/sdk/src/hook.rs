//! Hooks: code of the program that observes or changes runs at fixed points.
//!
//! ```
//! use provost::Agent;
//! use provost::hook::ObserverHook;
//! use provost::testing::ScriptedModel;
//!
//! let agent = Agent::builder("greeter", ScriptedModel::new().text("Hello!"))
//!     .hook(ObserverHook::new(|event| println!("{:?}", event.point)))
//!     .build()?;
//! # drop(agent);
//! # Ok::<_, provost::BuildError>(())
//! ```
//!
//! Implement [`Hook`] to change messages and calls or to deny them. The page `docs/reference/hooks.md` lists all
//! points.

pub use provost_agent::hook::{
    Hook, HookDecision, HookError, HookEvent, HookPoint, ModelCallEnd, ObserverHook, RunEnd,
    StartDecision, SubagentInfo, TeamMessageInfo, TeammateInfo, ToolCallEnd, ToolFailure,
};
pub use provost_tool::RunContext;
