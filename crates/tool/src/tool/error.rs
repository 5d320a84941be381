//! Errors of tools. Each variant names its audience.

use std::fmt;

use provost_core::ErrorInfo;
use provost_core::contract::{ResponseError, ToolContractError, ToolErrorCode};
use provost_core::usage::limits::{TOOL_ARGUMENTS_BYTES_MAX, TOOL_OUTPUT_BYTES_MAX};
use serde_json::{Value, json};

use crate::ToolOutput;
use crate::tool::output::{cut_text, json_size};

/// Maximum number of details of an error.
const FAULT_DETAILS_MAX: usize = 64;
/// Maximum size of one detail in bytes.
const FAULT_DETAIL_BYTES_MAX: usize = 4 * 1024;

/// Error of a tool call. The variant determines whether the model, a person or the application handles the error.
///
/// Any error converts with `?` into [`ToolError::Failed`]. Therefore `ToolError` does not implement
/// `std::error::Error`, and a [`ToolContractError`] keeps its type only through `map_err(ToolError::Fault)`.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolError {
    /// The arguments are unusable. The model should repeat the call with better ones; this counts against the retries
    /// of the tool.
    Retry(String),
    /// The call failed. The model receives the message, and the run continues.
    Failed(String),
    /// A person rejected the call. The model receives the message, and the run continues.
    Rejected(String),
    /// The call needs approval. [`ToolContext::confirm`](crate::ToolContext::confirm) returns it if the run can be
    /// suspended.
    NeedsApproval {
        /// Reason for the question.
        hint: String,
        /// Value to show with the question.
        payload: Option<Value>,
    },
    /// The call needs an answer from a person. The answer becomes the result of the call.
    NeedsAnswer {
        /// The question.
        question: String,
        /// Value to show with the question.
        payload: Option<Value>,
    },
    /// The call waits for other runs. [`ToolContext::wait_for_runs`](crate::ToolContext::wait_for_runs) returns it if
    /// the run can be suspended.
    WaitsForRuns {
        /// Description of the awaited runs, for the engine.
        wait: Value,
    },
    /// The call failed with an error code. The model receives the message, and the run continues.
    Fault(ToolContractError),
    /// The run cannot continue.
    Fatal(ErrorInfo),
}

impl ToolError {
    /// Creates an error that makes the model correct its arguments.
    pub fn retry(message: impl fmt::Display) -> Self {
        Self::Retry(message.to_string())
    }

    /// Creates an error of a failed call.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::Failed(message.to_string())
    }

    /// Converts the error to its form with an error code. An error without a code becomes a retryable
    /// `execution_failed`.
    pub fn to_contract_error(&self) -> ToolContractError {
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

    /// Converts the error to the output for the model. The error code is in the metadata, for the application.
    pub fn into_output(self) -> ToolOutput {
        let output = ToolOutput::error(self.to_string());
        match self {
            Self::Fault(fault) => {
                output.with_metadata(json!({ "fault": ResponseError::from(fault) }))
            }
            _ => output,
        }
    }

    /// Cuts texts that are too long for a model.
    pub(crate) fn into_bounded(mut self) -> Self {
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

/// Returns an error if a question is too large to show. A cut question would let a person approve something they have
/// not seen.
pub(crate) fn check_question(hint: &str, payload: Option<&Value>) -> Result<(), ToolError> {
    let payload_size = payload.map_or(0, json_size);
    for (what, size, size_max) in [
        ("hint", hint.len(), TOOL_OUTPUT_BYTES_MAX),
        ("payload", payload_size, TOOL_ARGUMENTS_BYTES_MAX),
    ] {
        if size > size_max {
            return Err(ToolError::Failed(format!(
                "the {what} of the question has {size} bytes, the maximum is {size_max}"
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
            // Many errors already contain the message of their source.
            if !text.ends_with(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            source = cause.source();
        }
        Self::Failed(text)
    }
}
