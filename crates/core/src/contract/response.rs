//! The response envelope.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::string_enum::string_enum;

use super::{
    CONTRACT_VERSION, ToolContractError, ToolErrorCode, ToolErrorReason, ToolRequest, TraceIds,
    check_version,
};

string_enum! {
    /// Status of a call.
    ToolStatus, "a tool status" {
        /// The call succeeded.
        Ok = "ok",
        /// The call failed.
        Error = "error",
        /// The call was denied.
        Denied = "denied",
    }
}

/// The response to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResponse {
    /// Always `v1`. Empty means `v1`.
    #[serde(default)]
    pub tool_contract_version: String,
    /// Id of the request.
    #[serde(default)]
    pub request_id: String,
    /// Status of the call.
    pub status: ToolStatus,
    /// Output of the call.
    #[serde(default)]
    pub output: ResponseOutput,
    /// Usage of the call.
    #[serde(default)]
    pub usage: ResponseUsage,
    /// Trace ids of the request.
    #[serde(default)]
    pub trace: TraceIds,
    /// Error of the call. Present if and only if the status is not `ok`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ResponseError>,
}

/// Output of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ResponseOutput {
    /// Text for the model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub result: String,
}

/// Usage of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ResponseUsage {
    /// Duration in milliseconds.
    pub duration_ms: u64,
    /// Number of the attempt.
    pub attempt: u32,
}

/// Error of a call, as sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ResponseError {
    /// An error code. An unknown code is read as `execution_failed`.
    pub code: String,
    /// An error reason.
    pub reason: String,
    /// True if the same call may succeed later.
    pub retryable: bool,
    /// Description of the error.
    pub message: String,
    /// Details for programs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}

impl ToolResponse {
    /// Creates the response to a request from the result of its call.
    pub fn of(
        request: &ToolRequest,
        came: Result<String, ToolContractError>,
        duration_ms: u64,
    ) -> Self {
        let (status, output, error) = match came {
            Ok(result) => (ToolStatus::Ok, ResponseOutput { result }, None),
            Err(fault) => {
                (fault.code.status(), ResponseOutput::default(), Some(ResponseError::from(fault)))
            }
        };
        Self {
            tool_contract_version: CONTRACT_VERSION.to_owned(),
            request_id: request.request_id.clone(),
            status,
            output,
            usage: ResponseUsage { duration_ms, attempt: request.attempt.max(1) },
            trace: request.trace.clone(),
            error,
        }
    }

    /// Returns the result of the call. Fails if the response has another version or belongs to another request.
    pub fn outcome(self, request: &ToolRequest) -> Result<String, ToolContractError> {
        check_version(&self.tool_contract_version).map_err(|fault| ToolContractError {
            code: ToolErrorCode::ExecutionFailed,
            ..ToolContractError::final_failure(fault.message)
        })?;
        if self.request_id.trim() != request.request_id {
            return Err(ToolContractError::final_failure(
                "the answer belongs to another request: its `request_id` is not ours",
            ));
        }
        match (self.status, self.error) {
            (ToolStatus::Ok, None) => Ok(self.output.result),
            (ToolStatus::Ok, Some(_)) => Err(ToolContractError::final_failure(
                "the answer has status `ok` and an error: it cannot be both",
            )),
            (ToolStatus::Denied, Some(error)) => {
                let fault = error.into_contract_error();
                Err(match fault.code {
                    // A denial has its own code; any other code is not a denial.
                    ToolErrorCode::PermissionDenied
                    | ToolErrorCode::AuthForbidden
                    | ToolErrorCode::ApprovalDenied => fault,
                    _ => ToolContractError {
                        details: fault.details,
                        ..ToolContractError::new(ToolErrorCode::PermissionDenied, fault.message)
                    },
                })
            }
            (ToolStatus::Error, Some(error)) => Err(error.into_contract_error()),
            (status, None) => Err(ToolContractError::final_failure(format!(
                "the answer has status `{status}` and no error"
            ))),
        }
    }
}

impl ResponseError {
    /// Converts a received error. An unknown code becomes [`ToolErrorCode::ExecutionFailed`].
    fn into_contract_error(self) -> ToolContractError {
        let code = self.code.trim().parse().unwrap_or(ToolErrorCode::ExecutionFailed);
        let reason: ToolErrorReason = self.reason.trim().parse().unwrap_or(code.reason());
        let message = if self.message.trim().is_empty() {
            format!("the tool returned `{code}` without a message")
        } else {
            self.message
        };
        ToolContractError {
            code,
            reason,
            retryable: self.retryable,
            message,
            details: self.details,
        }
    }
}

impl From<ToolContractError> for ResponseError {
    fn from(fault: ToolContractError) -> Self {
        Self {
            code: fault.code.as_str().to_owned(),
            reason: fault.reason.as_str().to_owned(),
            retryable: fault.retryable,
            message: fault.message,
            details: fault.details,
        }
    }
}
