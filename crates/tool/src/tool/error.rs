//! How a tool fails. The audience is the type.

use std::fmt;

use provost_core::ErrorInfo;
use provost_core::contract::{ResponseError, ToolContractError, ToolErrorCode};
use provost_core::usage::limits::{TOOL_ARGUMENTS_BYTES_MAX, TOOL_OUTPUT_BYTES_MAX};
use serde_json::{Value, json};

use crate::ToolOutput;
use crate::tool::output::{cut_text, json_size};

/// The longest list of facts that a fault keeps.
const FAULT_DETAILS_MAX: usize = 64;
/// Bytes of one fact of a fault.
const FAULT_DETAIL_BYTES_MAX: usize = 4 * 1024;

/// How a tool fails, by who must hear of it.
///
/// Any error converts with `?` into [`ToolError::Failed`]. For that reason it is not itself a `std::error::Error`, and a
/// [`ToolContractError`] keeps its type only through `map_err(ToolError::Fault)`.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolError {
    /// The model should call again with better arguments; counts against the tool's retry budget.
    Retry(String),
    /// It did not work; the model is told and the run goes on.
    Failed(String),
    /// A person said no; the model is told and the run goes on.
    Rejected(String),
    /// A person must decide first. Return it where the run can be suspended; [`ToolCx::confirm`](crate::ToolCx::confirm) does.
    NeedsApproval {
        /// Why it asks.
        hint: String,
        /// What to show with the question.
        payload: Option<Value>,
    },
    /// A person must answer a question. The answer is the result of the call.
    NeedsAnswer {
        /// The question.
        question: String,
        /// What to show with the question.
        payload: Option<Value>,
    },
    /// The call waits for other runs, and no person can end the wait. [`ToolCx::wait_for_runs`](crate::ToolCx::wait_for_runs)
    /// returns it where the run can be suspended.
    WaitsForRuns {
        /// What it waits for, for the engine that ends the wait.
        wait: Value,
    },
    /// A governed call failed, with a code and a reason for programs; the model is told its text and the run goes on.
    Fault(ToolContractError),
    /// The run itself cannot go on.
    Fatal(ErrorInfo),
}

impl ToolError {
    /// The model should call again with better arguments.
    pub fn retry(message: impl fmt::Display) -> Self {
        Self::Retry(message.to_string())
    }

    /// It did not work.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::Failed(message.to_string())
    }

    /// The code and the reason for programs. What is not typed is a failed execution that may pass.
    pub fn fault(&self) -> ToolContractError {
        match self {
            Self::Fault(fault) => fault.clone(),
            Self::Retry(text) => ToolContractError::new(ToolErrorCode::InvalidInput, text.clone()),
            Self::Failed(text) => {
                ToolContractError::new(ToolErrorCode::ExecutionFailed, text.clone())
            }
            Self::Rejected(_) => {
                ToolContractError::new(ToolErrorCode::ApprovalDenied, self.to_string())
            }
            Self::NeedsApproval { hint, .. } => {
                ToolContractError::new(ToolErrorCode::ApprovalPending, hint.clone())
            }
            Self::NeedsAnswer { question, .. } => {
                ToolContractError::new(ToolErrorCode::ApprovalPending, question.clone())
            }
            Self::WaitsForRuns { .. } => {
                ToolContractError::new(ToolErrorCode::ApprovalPending, self.to_string())
            }
            Self::Fatal(error) => ToolContractError::final_failure(error.message.clone())
                .detail("code", error.code.clone()),
        }
    }

    /// What the model reads, with the fault as metadata for the application.
    pub fn into_output(self) -> ToolOutput {
        let output = ToolOutput::error(self.to_string());
        match self {
            Self::Fault(fault) => {
                output.with_metadata(json!({ "fault": ResponseError::from(fault) }))
            }
            _ => output,
        }
    }

    /// Cuts a text that is too long for a model.
    pub(crate) fn bounded(mut self) -> Self {
        match &mut self {
            Self::Retry(text) | Self::Failed(text) | Self::Rejected(text) => {
                cut_text(text, TOOL_OUTPUT_BYTES_MAX);
            }
            Self::Fault(fault) => {
                cut_text(&mut fault.message, TOOL_OUTPUT_BYTES_MAX);
                while fault.details.len() > FAULT_DETAILS_MAX {
                    fault.details.pop_last();
                }
                let keep = |name: &String, value: &mut String| {
                    cut_text(value, FAULT_DETAIL_BYTES_MAX);
                    name.len() <= FAULT_DETAIL_BYTES_MAX
                };
                fault.details.retain(keep);
            }
            Self::Fatal(error) => {
                cut_text(&mut error.message, TOOL_OUTPUT_BYTES_MAX);
                cut_text(&mut error.code, TOOL_OUTPUT_BYTES_MAX);
            }
            Self::NeedsApproval { hint, payload }
            | Self::NeedsAnswer { question: hint, payload } => {
                if let Err(refusal) = check_question(hint, payload.as_ref()) {
                    return refusal;
                }
            }
            Self::WaitsForRuns { .. } => {}
        }
        self
    }
}

/// Refuses a question that is too large to keep. Cutting it would let a person approve what they were not shown.
pub(crate) fn check_question(hint: &str, payload: Option<&Value>) -> Result<(), ToolError> {
    let payload_size = payload.map_or(0, json_size);
    for (what, size, size_max) in [
        ("hint", hint.len(), TOOL_OUTPUT_BYTES_MAX),
        ("payload", payload_size, TOOL_ARGUMENTS_BYTES_MAX),
    ] {
        if size > size_max {
            return Err(ToolError::Failed(format!(
                "the {what} of the question is {size} bytes long, at most {size_max} can be shown to a person"
            )));
        }
    }
    Ok(())
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry(message) | Self::Failed(message) => f.write_str(message),
            Self::Rejected(reason) if reason.is_empty() => f.write_str("the call was not approved"),
            Self::Rejected(reason) => write!(f, "the call was not approved: {reason}"),
            Self::NeedsApproval { hint, .. } => write!(f, "the call needs approval: {hint}"),
            Self::NeedsAnswer { question, .. } => write!(f, "the call needs an answer: {question}"),
            Self::WaitsForRuns { .. } => f.write_str("the call waits for other runs"),
            Self::Fault(fault) => fault.fmt(f),
            Self::Fatal(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Many errors already repeat their cause.
            if !text.ends_with(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            source = cause.source();
        }
        Self::Failed(text)
    }
}
