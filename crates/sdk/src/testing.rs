//! Tests of agents without a network: scripted models, recorded model calls and a simulated clock.
//!
//! ```
//! use provost::Agent;
//! use provost::testing::ScriptedModel;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let model = ScriptedModel::new().text("Hello!");
//! let agent = Agent::builder("greeter", model.clone()).build()?;
//! assert_eq!(agent.run("Hi").await?.output, "Hello!");
//! assert_eq!(model.request(0).messages[0].text(), "Hi");
//! model.assert_exhausted();
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! [`ScriptedModel::turn`] takes a [`ScriptedTurn`] for less common turns: delays, usage, errors and broken streams.

pub use provost_core::Env;
pub use provost_model::{
    Cassette, CassetteMode, CassetteRedaction, RecordingModel, ReplayModel, ScriptedModel,
    ScriptedTurn, call, calls, fail, text,
};
