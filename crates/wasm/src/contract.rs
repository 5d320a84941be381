//! The module contract, version 1: one JSON object on standard input, one JSON object on standard output.

use std::collections::BTreeMap;

use provost_core::contract::{
    ResponseError, ResponseOutput, ResponseUsage, ToolContractError, ToolErrorCode, ToolRequest,
    ToolResponse, ToolStatus, TraceIds,
};
use provost_core::resource::{ToolResource, WasmSpec};
use serde::{Deserialize, Serialize};

/// Version of the module contract.
pub const MODULE_CONTRACT_VERSION: &str = "v1";

/// Request to a module: the JSON that it reads from its standard input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModuleRequest {
    /// Always `v1`.
    pub contract_version: String,
    /// Identifies the request. A module may repeat it in its response.
    pub request_id: String,
    /// Id of the calling task.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task_id: String,
    /// Namespace of the task.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the calling agent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// Name of the tool.
    pub tool: String,
    /// Arguments of the call, as a string that contains JSON.
    pub input: String,
    /// Capabilities of the tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// `low`, `medium`, `high` or `critical`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub risk_level: String,
    /// Limits of the call.
    pub runtime: ModuleBounds,
    /// Authentication profile of the module's HTTP requests: the name of the method, never a value.
    pub auth: BTreeMap<String, String>,
    /// Trace of the call.
    pub trace: TraceIds,
    /// Number of the attempt, starting with 1.
    pub attempt: u32,
}

/// Limits of one call, as the module sees them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModuleBounds {
    /// Name of the called function.
    pub entrypoint: String,
    /// Memory limit, in bytes.
    pub max_memory_bytes: u64,
    /// Fuel limit. 0: fuel is not counted.
    pub fuel: u64,
    /// True if WASI is available.
    pub enable_wasi: bool,
    /// Time limit, in milliseconds.
    pub timeout_ms: u64,
}

/// Response of a module: the JSON that it writes to its standard output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleResponse {
    /// Must be `v1`.
    pub contract_version: String,
    /// Id of the request. Optional.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// Status of the call.
    pub status: ToolStatus,
    /// Text for the model.
    #[serde(default)]
    pub output: String,
    /// Error, if the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ResponseError>,
}

impl ModuleRequest {
    /// Creates the request of a call to the entry function `entry`.
    pub(crate) fn new(
        tool: &ToolResource,
        spec: &WasmSpec,
        request: &ToolRequest,
        entry: &str,
    ) -> Self {
        let profile =
            tool.auth.as_ref().map(|auth| ("profile".to_owned(), auth.profile.to_string()));
        Self {
            contract_version: MODULE_CONTRACT_VERSION.to_owned(),
            request_id: request.request_id.clone(),
            task_id: request.task_id.clone(),
            namespace: request.namespace.clone(),
            agent: request.agent.clone(),
            tool: tool.name.clone(),
            input: request.encoded_input(),
            capabilities: tool.capabilities.clone(),
            risk_level: tool.risk_level.to_string(),
            runtime: ModuleBounds {
                entrypoint: entry.to_owned(),
                max_memory_bytes: spec.max_memory_bytes,
                fuel: spec.fuel,
                enable_wasi: spec.enable_wasi,
                timeout_ms: u64::try_from(tool.runtime.timeout.0.as_millis()).unwrap_or(u64::MAX),
            },
            auth: profile.into_iter().collect(),
            trace: request.trace.clone(),
            attempt: request.attempt,
        }
    }
}

/// Parses and validates a response, and returns the output. Returns an error if the response violates the contract or
/// reports an error. `excerpt` shortens text of the module for error messages.
pub(crate) fn parse_response(
    answer: &[u8],
    request: &ToolRequest,
    excerpt: &dyn Fn(&str) -> String,
) -> Result<String, ToolContractError> {
    if answer.iter().all(u8::is_ascii_whitespace) {
        return Err(contract_error("the module wrote no response to its standard output"));
    }
    let response: ModuleResponse = serde_json::from_slice(answer).map_err(|error| {
        contract_error(&format!(
            "the response does not match the module contract: {}",
            excerpt(&error.to_string())
        ))
    })?;
    if !response.contract_version.trim().eq_ignore_ascii_case(MODULE_CONTRACT_VERSION) {
        let version = excerpt(&response.contract_version);
        return Err(contract_error(&format!(
            "the response has contract version `{version}`, expected `v1`"
        ))
        .detail("field", "contract_version")
        .detail("expected", MODULE_CONTRACT_VERSION));
    }
    let response_id = response.request_id.trim();
    if !response_id.is_empty() && response_id != request.request_id {
        return Err(contract_error(
            "the response belongs to another request: `request_id` differs",
        ));
    }
    if response.status == ToolStatus::Ok && response.error.is_some() {
        return Err(contract_error("the response has status `ok` and an error"));
    }
    let error = response.error.map(|error| ResponseError {
        message: excerpt(&error.message),
        details: error
            .details
            .into_iter()
            .take(DETAILS_MAX)
            .map(|(key, value)| (excerpt(&key), excerpt(&value)))
            .collect(),
        ..error
    });
    let response = ToolResponse {
        tool_contract_version: String::new(),
        request_id: request.request_id.clone(),
        status: response.status,
        output: ResponseOutput { result: response.output },
        usage: ResponseUsage::default(),
        trace: TraceIds::default(),
        error,
    };
    response.outcome(request)
}

/// Maximum number of error details that are passed on.
const DETAILS_MAX: usize = 32;

/// Creates the error of a response that violates the contract.
fn contract_error(message: &str) -> ToolContractError {
    ToolContractError::new(ToolErrorCode::RuntimePolicyInvalid, message)
}

#[cfg(test)]
mod tests;
