//! The module contract, version 1: one JSON object to the standard input, one from the standard output.

use std::collections::BTreeMap;

use provost_core::contract::{
    ResponseError, ResponseOutput, ResponseUsage, ToolContractError, ToolErrorCode, ToolRequest,
    ToolResponse, ToolStatus, TraceIds,
};
use provost_core::resource::{ToolResource, WasmSpec};
use serde::{Deserialize, Serialize};

/// The one version there is.
pub const MODULE_CONTRACT_VERSION: &str = "v1";

/// What a module is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModuleRequest {
    /// Always `v1`.
    pub contract_version: String,
    /// Names this request; a module may repeat it.
    pub request_id: String,
    /// The task that asks.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task_id: String,
    /// Where the task belongs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The agent that asks.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// The tool.
    pub tool: String,
    /// The arguments as text, which is JSON.
    pub input: String,
    /// Labels of the tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// `low`, `medium`, `high` or `critical`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub risk_level: String,
    /// The bounds of the call.
    pub runtime: ModuleBounds,
    /// How requests of the module are authenticated: the name of the way, never a value.
    pub auth: BTreeMap<String, String>,
    /// The trace that the call belongs to.
    pub trace: TraceIds,
    /// Counts from 1.
    pub attempt: u32,
}

/// The bounds of one call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModuleBounds {
    /// The function that is called.
    pub entrypoint: String,
    /// Bytes of memory.
    pub max_memory_bytes: u64,
    /// What may be used up; 0 if it is not counted.
    pub fuel: u64,
    /// Whether there is WASI.
    pub enable_wasi: bool,
    /// How long it may take.
    pub timeout_ms: u64,
}

/// What a module answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleResponse {
    /// Must be `v1`.
    pub contract_version: String,
    /// The request's, if it is there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// How it went.
    pub status: ToolStatus,
    /// Text for the model.
    #[serde(default)]
    pub output: String,
    /// Why it did not work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ResponseError>,
}

impl ModuleRequest {
    /// The request of a call.
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

/// What an answer says. `shown` cuts words of the module to what fits into an error.
pub(crate) fn outcome(
    answer: &[u8],
    request: &ToolRequest,
    shown: &dyn Fn(&str) -> String,
) -> Result<String, ToolContractError> {
    if answer.iter().all(u8::is_ascii_whitespace) {
        return Err(breach("it wrote no answer to its standard output"));
    }
    let response: ModuleResponse = serde_json::from_slice(answer).map_err(|error| {
        breach(&format!("its answer is none of the module contract: {}", shown(&error.to_string())))
    })?;
    if !response.contract_version.trim().eq_ignore_ascii_case(MODULE_CONTRACT_VERSION) {
        let version = shown(&response.contract_version);
        return Err(breach(&format!("its answer has contract version `{version}`, not `v1`"))
            .detail("field", "contract_version")
            .detail("expected", MODULE_CONTRACT_VERSION));
    }
    let given = response.request_id.trim();
    if !given.is_empty() && given != request.request_id {
        return Err(breach("its answer belongs to another request: `request_id` is not ours"));
    }
    if response.status == ToolStatus::Ok && response.error.is_some() {
        return Err(breach("its answer has status `ok` and an error: it cannot be both"));
    }
    let error = response.error.map(|error| ResponseError {
        message: shown(&error.message),
        details: error
            .details
            .into_iter()
            .take(DETAILS_MAX)
            .map(|(key, value)| (shown(&key), shown(&value)))
            .collect(),
        ..error
    });
    let envelope = ToolResponse {
        tool_contract_version: String::new(),
        request_id: request.request_id.clone(),
        status: response.status,
        output: ResponseOutput { result: response.output },
        usage: ResponseUsage::default(),
        trace: TraceIds::default(),
        error,
    };
    envelope.outcome(request)
}

/// Facts of a failure that are passed on.
const DETAILS_MAX: usize = 32;

/// The module does not keep to the contract.
fn breach(message: &str) -> ToolContractError {
    ToolContractError::new(ToolErrorCode::RuntimePolicyInvalid, message)
}

#[cfg(test)]
mod tests;
