//! The request envelope.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CONTRACT_VERSION, OPERATION_INVOKE, ToolContractError, ToolErrorCode, check_version};

/// One call of a tool that lives elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToolRequest {
    /// Always `v1`; empty is read as `v1`.
    pub tool_contract_version: String,
    /// Names this request; the answer repeats it.
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
    /// What is called.
    pub tool: RequestTool,
    /// Flat arguments. Nested ones are in `input_raw`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub input: BTreeMap<String, String>,
    /// The arguments as text; counts instead of `input` if it is not empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub input_raw: String,
    /// A copy of the tool's own policy, as advice.
    pub runtime: RequestRuntime,
    /// Names of credentials, never their values.
    pub auth: RequestAuth,
    /// The trace that the call belongs to.
    pub trace: TraceIds,
    /// Counts from 1.
    pub attempt: u32,
}

/// What is called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RequestTool {
    /// Its name.
    pub name: String,
    /// What it shall do; `invoke` unless it says otherwise.
    pub operation: String,
    /// Labels in lower case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// `low`, `medium`, `high` or `critical`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub risk_level: String,
}

/// A copy of the tool's own policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RequestRuntime {
    /// The transport.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mode: String,
    /// How long one attempt may take.
    #[serde(skip_serializing_if = "is_zero")]
    pub timeout_ms: u64,
    /// How often it is tried.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_attempts: u64,
    /// The first pause between attempts, as a duration such as `500ms`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub backoff: String,
    /// The longest pause.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_backoff_ms: u64,
    /// Are pauses spread at random?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub jitter: bool,
}

/// Names of credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RequestAuth {
    /// How it is authenticated.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub profile: String,
    /// The name of the secret.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub secret_ref: String,
    /// What is asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

/// The trace that a call belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TraceIds {
    /// The trace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trace_id: String,
    /// The span above.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub span_id: String,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl ToolRequest {
    /// The normal form: trimmed names, labels in lower case and once, defaults filled in.
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

    /// The arguments as text: `input_raw` if it says anything, else `input` as JSON.
    pub fn encoded_input(&self) -> String {
        if self.input_raw.is_empty() {
            // A map of strings always has a JSON form.
            serde_json::to_string(&self.input).unwrap_or_default()
        } else {
            self.input_raw.clone()
        }
    }
}

/// Trims labels, lowers their case, and keeps each once in its first place.
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
