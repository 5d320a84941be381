//! The data of [`Event`](crate::Event)s: run summaries, limits, errors, handoffs and team messages.
//!
//! Each run emits a stream of numbered events. The page `docs/reference/events.md` lists all kinds.
//!
//! ```
//! use futures::StreamExt;
//! use provost::testing::ScriptedModel;
//! use provost::{Agent, EventKind};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let agent = Agent::builder("greeter", ScriptedModel::new().text("Hello!")).build()?;
//! let mut run = agent.run("Hi").stream();
//! while let Some(event) = run.next().await {
//!     match event.kind {
//!         EventKind::TextDelta { text } => print!("{text}"),
//!         EventKind::Finished { summary } => println!(" ({} turns)", summary.turns),
//!         _ => {}
//!     }
//! }
//! # Ok::<_, provost::BuildError>(())
//! # }).unwrap();
//! ```

pub use provost_core::{
    AgentHandoff, AgentUsage, ApprovalId, ApprovalRequestKind, Compaction, ErrorInfo, ErrorKind,
    LimitKind, LimitReached, RunId, RunSummary, TeamMember, TeamMessage,
};
