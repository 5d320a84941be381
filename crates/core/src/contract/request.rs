//! The request envelope.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CONTRACT_VERSION, OPERATION_INVOKE, ToolContractError, ToolErrorCode, check_version};

/// A call of a remote tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToolRequest {
    /// Always `v1`. Empty means `v1`.
    pub tool_contract_version: String,
    /// Id of the request. The response repeats it.
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
    /// The called tool.
    pub tool: RequestTool,
    /// Flat arguments. Nested arguments are in `input_raw`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub input: BTreeMap<String, String>,
    /// The arguments as text. Takes precedence over `input` if it is not empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub input_raw: String,
    /// A copy of the tool's runtime policy, for information.
    pub runtime: RequestRuntime,
    /// Names of credentials, never their values.
    pub auth: RequestAuth,
    /// Trace ids of the call.
    pub trace: TraceIds,
    /// Number of the attempt, from 1.
    pub attempt: u32,
}

/// The called tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RequestTool {
    /// Name of the tool.
    pub name: String,
    /// Operation. The default is `invoke`.
    pub operation: String,
    /// Capability labels in lower case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Risk level: `low`, `medium`, `high` or `critical`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub risk_level: String,
}

/// A copy of the tool's runtime policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RequestRuntime {
    /// The transport.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mode: String,
    /// Timeout of one attempt in milliseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub timeout_ms: u64,
    /// Maximum number of attempts.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_attempts: u64,
    /// First delay between attempts, as a duration such as `500ms`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub backoff: String,
    /// Maximum delay in milliseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_backoff_ms: u64,
    /// True if delays are randomized.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub jitter: bool,
}

/// Names of credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RequestAuth {
    /// Authentication profile.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub profile: String,
    /// Name of the secret.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub secret_ref: String,
    /// Requested scopes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

/// Trace ids of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TraceIds {
    /// Id of the trace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trace_id: String,
    /// Id of the parent span.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub span_id: String,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl ToolRequest {
    /// Returns the normal form: trimmed names, distinct labels in lower case, and defaults. Fails for an unsupported
    /// version or a missing name.
    pub fn normalized(mut self) -> Result<Self, ToolContractError> {
        check_version(&self.tool_contract_version)?;
        CONTRACT_VERSION.clone_into(&mut self.tool_contract_version);
        for (field, text) in
            [("request_id", &mut self.request_id), ("tool.name", &mut self.tool.name)]
        {
            *text = text.trim().to_owned();
            if text.is_empty() {
                let message = format!("`{field}` is missing");
                return Err(ToolContractError::new(ToolErrorCode::InvalidInput, message)
                    .detail("field", field));
            }
        }
        let operation = self.tool.operation.trim().to_lowercase();
        self.tool.operation =
            if operation.is_empty() { OPERATION_INVOKE.to_owned() } else { operation };
        self.tool.capabilities = labels(&self.tool.capabilities);
        self.tool.risk_level = self.tool.risk_level.trim().to_lowercase();
        self.attempt = self.attempt.max(1);
        Ok(self)
    }

    /// Returns the arguments as text: `input_raw` if it is not empty, otherwise `input` as JSON.
    pub fn encoded_input(&self) -> String {
        if self.input_raw.is_empty() {
            // A map of strings always has a JSON form.
            serde_json::to_string(&self.input).unwrap_or_default()
        } else {
            self.input_raw.clone()
        }
    }
}

/// Trims labels, converts them to lower case and removes duplicates.
pub(crate) fn labels(given: &[String]) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(given.len());
    for label in given {
        let label = label.trim().to_lowercase();
        if !label.is_empty() && !kept.contains(&label) {
            kept.push(label);
        }
    }
    kept
}
