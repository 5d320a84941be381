//! The door to every tool: checks a call, hands out a permit, runs what is permitted.
//!
//! Invariant: a [`Permit`] is made in this file only, and a tool cannot be called without one.

use std::any::TypeId;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use provost_core::limits::TOOL_ARGUMENTS_BYTES_MAX;
use provost_core::{ToolCall, ToolDef};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Approval, Tool, ToolCx, ToolError, ToolOutput};

/// Proof that one exact call may run: this tool, these arguments. Used up by running it.
pub struct Permit {
    tool: Arc<dyn Tool>,
    arguments: Value,
}

impl Permit {
    /// The checked arguments.
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }

    /// What the permitted tool is.
    pub fn def(&self) -> &ToolDef {
        self.tool.spec().def()
    }

    /// The arguments as a type; the error tells the model what is wrong and where.
    pub fn parse<A: DeserializeOwned + 'static>(self) -> Result<A, ToolError> {
        // A tool without arguments is a unit type; models send it an empty object.
        let value = match self.arguments {
            Value::Object(map) if map.is_empty() && TypeId::of::<A>() == TypeId::of::<()>() => {
                Value::Null
            }
            other => other,
        };
        serde_path_to_error::deserialize(value).map_err(|error| {
            ToolError::Retry(format!("argument `{}`: {}", error.path(), error.inner()))
        })
    }
}

/// What the guard says about a call.
pub enum Verdict {
    /// It may run.
    Allow(Permit),
    /// A person must decide first.
    Ask,
    /// It may not run, whatever anybody says; the text is for the model.
    Deny(String),
    /// The arguments are wrong; the text tells the model how.
    Invalid(String),
}

/// Decides about calls and runs the permitted ones.
///
/// Confirmation is its first rule. Stricter rules can only make an answer stricter: allow, then ask, then deny.
#[derive(Debug, Clone, Copy, Default)]
pub struct Guard;

impl Guard {
    /// Looks at one call. `approved` says that a person has approved this exact call.
    pub fn check(self, tool: &Arc<dyn Tool>, call: &ToolCall, approved: bool) -> Verdict {
        if call.arguments.len() > TOOL_ARGUMENTS_BYTES_MAX {
            return Verdict::Invalid(format!(
                "the arguments are {} bytes long, at most {TOOL_ARGUMENTS_BYTES_MAX} are accepted",
                call.arguments.len()
            ));
        }
        let arguments = match call.parse_arguments() {
            Ok(arguments) => arguments,
            Err(error) => {
                return Verdict::Invalid(format!("the arguments are not valid JSON: {error}"));
            }
        };
        let spec = tool.spec();
        if let Err(error) = spec.check(&arguments) {
            return Verdict::Invalid(format!("the arguments do not fit the schema: {error}"));
        }
        let ask = match &spec.approval {
            Approval::Never => false,
            Approval::Always => true,
            // A rule that panics must not open the door.
            Approval::When(needs) => {
                std::panic::catch_unwind(AssertUnwindSafe(|| needs(&arguments))).unwrap_or(true)
            }
        };
        if ask && !approved {
            return Verdict::Ask;
        }
        Verdict::Allow(Permit {
            tool: Arc::clone(tool),
            arguments,
        })
    }

    /// Runs a permitted call: within its time, in a task of its own so that a panic stays inside, with a bounded result.
    /// Dropping the future stops the tool.
    pub async fn run(self, permit: Permit, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        let timeout = permit.tool.spec().timeout;
        let tool = Arc::clone(&permit.tool);
        // The call itself may panic before it returns a future, so it too happens inside the task.
        let body = async move { tool.call(permit, cx).await };
        let mut task = Aborting(tokio::spawn(body));
        let result = match tokio::time::timeout(timeout, &mut task.0).await {
            Ok(Ok(result)) => result,
            Ok(Err(failure)) if failure.is_panic() => Err(ToolError::Failed(format!(
                "the tool panicked: {}",
                panic_text(failure)
            ))),
            Ok(Err(_)) => Err(ToolError::Failed("the tool was stopped".to_owned())),
            Err(_) => Err(ToolError::Failed(format!(
                "the tool did not finish within {} s",
                timeout.as_secs_f64()
            ))),
        };
        result.map(ToolOutput::bounded).map_err(ToolError::bounded)
    }
}

/// Stops the task when it goes: a call that nobody waits for must not go on.
struct Aborting<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for Aborting<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn panic_text(failure: tokio::task::JoinError) -> String {
    let payload = failure.into_panic();
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a message".to_owned())
}
