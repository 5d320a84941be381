//! The suite that every runtime passes, with real parts behind it.
//!
//! A [`Stage`] is a running backend that can act out [`Scene`]s; [`conform`] plays them through the guarded path and gives a
//! [`Report`] with one row of a matrix: the groups of the contract, each with the checks that hold. What a backend cannot act
//! out is marked as such and never counted as held.

mod call;
mod expect;
mod report;
mod suite;

use std::sync::Arc;

use provost_core::contract::ToolErrorCode;
use provost_core::resource::ToolResource;
use provost_tool::ToolRuntime;
use serde_json::{Value, json};

pub use report::{Check, Group, Outcome, Report, matrix};
pub use suite::conform;

/// What a backend is asked to do with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scene {
    /// Answers with the text of the argument `text`.
    Echo,
    /// Never answers, and keeps at it whatever is said to it.
    Hang,
    /// Fails twice in a way that may pass, then echoes.
    Flaky,
    /// Fails in a way that does not pass.
    Broken,
    /// Says that the credential is not valid.
    Unauthorised,
    /// Says that the credential may not do this.
    Forbidden,
    /// Answers something that is not its protocol.
    Garbage,
    /// Answers another request's id.
    WrongId,
    /// Answers without end, or more than anybody wants.
    Endless,
}

/// One call as it arrived at the backend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// The request's id.
    pub request_id: String,
    /// The id of its trace.
    pub trace_id: String,
    /// The number of the attempt.
    pub attempt: u32,
    /// The `authorization` header or metadata.
    pub authorization: String,
    /// Everything that came in the body.
    pub body: String,
}

/// A running backend of one runtime.
pub trait Stage: Send + Sync {
    /// What the row of the matrix is called.
    fn name(&self) -> &str;

    /// The runtime that reaches it.
    fn runtime(&self) -> Arc<dyn ToolRuntime>;

    /// A tool that acts out a scene; `None` if this backend cannot. Each call of this gives a tool that starts anew.
    fn tool(&self, scene: Scene) -> Option<ToolResource>;

    /// The arguments with which a tool echoes a text.
    fn arguments(&self, _scene: Scene, text: &str) -> Value {
        json!({ "text": text })
    }

    /// Whether there is a place for credentials in what is sent: a program behind pipes has none.
    fn takes_credentials(&self) -> bool {
        true
    }

    /// The code of an answer that is not its protocol. A module that breaks its contract is a definition that cannot work.
    fn breach(&self) -> ToolErrorCode {
        ToolErrorCode::ExecutionFailed
    }

    /// The calls that arrived so far; `None` if it cannot be looked into.
    fn seen(&self) -> Option<Vec<Seen>>;

    /// The calls that it still works on; `None` if it cannot be looked into.
    fn busy(&self) -> Option<usize>;
}
