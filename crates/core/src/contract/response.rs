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
    /// How a call went.
    ToolStatus, "a tool status" {
        /// It worked.
        Ok = "ok",
        /// It did not.
        Error = "error",
        /// It may not be done.
        Denied = "denied",
    }
}

/// What came of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResponse {
    /// Always `v1`; empty is read as `v1`.
    #[serde(default)]
    pub tool_contract_version: String,
    /// The request's.
    #[serde(default)]
    pub request_id: String,
    /// How it went.
    pub status: ToolStatus,
    /// What it gave.
    #[serde(default)]
    pub output: ResponseOutput,
    /// What it took.
    #[serde(default)]
    pub usage: ResponseUsage,
    /// The request's.
    #[serde(default)]
    pub trace: TraceIds,
    /// Why it did not work; there if and only if the status is not `ok`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ResponseError>,
}

/// What a call gave.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ResponseOutput {
    /// Text for the model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub result: String,
}

/// What a call took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ResponseUsage {
    /// How long it took.
    pub duration_ms: u64,
    /// Which attempt it was.
    pub attempt: u32,
}

/// Why a call did not work, in the words of the wire.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ResponseError {
    /// One of the codes; an unknown one is read as `execution_failed`.
    pub code: String,
    /// One of the reasons.
    pub reason: String,
    /// May the same call succeed later?
    pub retryable: bool,
    /// A sentence.
    pub message: String,
    /// Facts for programs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}

impl ToolResponse {
    /// The answer to a request.
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

    /// What the answer says, checked against the request: another version or another request's id is no answer.
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
                let fault = error.fault();
                Err(match fault.code {
                    // What denies says so with its own code; any other code is not a denial.
                    ToolErrorCode::PermissionDenied
                    | ToolErrorCode::AuthForbidden
                    | ToolErrorCode::ApprovalDenied => fault,
                    _ => ToolContractError {
                        details: fault.details,
                        ..ToolContractError::new(ToolErrorCode::PermissionDenied, fault.message)
                    },
                })
            }
            (ToolStatus::Error, Some(error)) => Err(error.fault()),
            (status, None) => Err(ToolContractError::final_failure(format!(
                "the answer has status `{status}` and no error"
            ))),
        }
    }
}

impl ResponseError {
    fn fault(self) -> ToolContractError {
        let code = self.code.trim().parse().unwrap_or(ToolErrorCode::ExecutionFailed);
        let reason: ToolErrorReason = self.reason.trim().parse().unwrap_or(code.reason());
        let message = if self.message.trim().is_empty() {
            format!("the tool says `{code}` and not why")
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
