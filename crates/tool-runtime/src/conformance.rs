//! Conformance suite for tool runtimes, run against real backends.
//!
//! A [`TestBackend`] implements [`Scenario`]s. [`run_conformance`] runs them through the guard and returns a [`Report`]
//! with the checks of each group. Scenarios that a backend does not implement are skipped and not counted as passed.

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
pub use suite::run_conformance;

/// Behaviour of the backend in one call, for a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scenario {
    /// Responds with the text of the argument `text`.
    Echo,
    /// Never responds, and ignores cancellation.
    Hang,
    /// Fails twice with a retryable error, then echoes.
    Flaky,
    /// Fails with a permanent error.
    Broken,
    /// Rejects the credential as invalid.
    Unauthorised,
    /// Denies access for the credential.
    Forbidden,
    /// Violates its protocol.
    Garbage,
    /// Responds with the id of another request.
    WrongId,
    /// Responds with an endless or too large body.
    Endless,
}

/// A call as the backend received it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedCall {
    /// Id of the request.
    pub request_id: String,
    /// Id of the trace.
    pub trace_id: String,
    /// Number of the attempt.
    pub attempt: u32,
    /// Value of the `authorization` header or metadata.
    pub authorization: String,
    /// Body of the request.
    pub body: String,
}

/// A running server or program that implements the scenarios for one runtime.
pub trait TestBackend: Send + Sync {
    /// Returns the name of the backend for the report.
    fn name(&self) -> &str;

    /// Returns the runtime that calls the backend.
    fn runtime(&self) -> Arc<dyn ToolRuntime>;

    /// Returns a new tool that implements a scenario. `None` if the backend does not support it.
    fn tool(&self, scenario: Scenario) -> Option<ToolResource>;

    /// Returns the arguments with which a tool echoes a text.
    fn arguments(&self, _scene: Scenario, text: &str) -> Value {
        json!({ "text": text })
    }

    /// Returns true if requests can carry credentials. Programs with pipes cannot.
    fn supports_credentials(&self) -> bool {
        true
    }

    /// Returns the error code that the runtime reports for a violation of the protocol. For a module it is an invalid
    /// definition.
    fn protocol_error_code(&self) -> ToolErrorCode {
        ToolErrorCode::ExecutionFailed
    }

    /// Returns the received calls. `None` if the backend does not record them.
    fn observed_calls(&self) -> Option<Vec<ObservedCall>>;

    /// Returns the number of running calls. `None` if the backend does not count them.
    fn active_calls(&self) -> Option<usize>;
}
