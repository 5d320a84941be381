//! Test doubles for Provost: a fake model provider on a real socket that speaks the vendors' wires, a tool server that
//! counts effects, real processes that can be killed and frozen, and a history checker.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use provost_testkit::{FakeProvider, Reply};
//!
//! let provider = FakeProvider::start().await;
//! provider.reply(Reply::text("Hello!"));
//! assert!(provider.base_url().ends_with("/v1"));
//! # });
//! ```
//!
//! The fake provider does not use `provost-model`, so a mistake in a codec cannot cancel itself out.

mod body;
mod effect_server;
pub mod history;
mod process;
mod provider;
mod reply;

pub use effect_server::{
    Call, EffectKind, EffectServer, RemoteEffectServer, serve_until_stdin_closes,
};
pub use process::{Process, ProcessError, Stream};
pub use provider::{FakeProvider, Recorded};
pub use reply::{Failure, Reply, WireKind};
