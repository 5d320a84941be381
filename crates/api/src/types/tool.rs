//! Declared tools, what the server can do, who did what, and what was used.

use provost_core::{AuditId, RunId, UsageRecordId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Time;

/// A declared tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeclaredTool {
    /// Its name.
    pub name: String,
    /// Where it lives: `http`, `external`, `grpc`, `webhook-callback`, `mcp`, `a2a`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What models are told.
    pub description: String,
    /// What it does to the world: `read`, `write`, `delete`, `admin`.
    pub operations: Vec<String>,
    /// How much harm it can do: `low`, `medium`, `high`, `critical`.
    pub risk: String,
    /// What repeating a call would do.
    pub effect: String,
    /// What it runs in.
    pub isolation: String,
    /// Why it cannot be called here, if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What may be sent to it, as JSON Schema.
    pub input_schema: Value,
}

/// One thing that the server can do, or knows and cannot do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capability {
    /// Its stable name, such as `tool.http`.
    pub id: String,
    /// True if it can be used.
    pub enabled: bool,
    /// What it is.
    pub description: String,
    /// Who says so.
    pub source: String,
}

/// What the server can do now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capabilities {
    /// When it was asked.
    pub generated_at: Time,
    /// What, by id.
    pub capabilities: Vec<Capability>,
}

/// A record of who did what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditRecord {
    /// The id.
    pub id: AuditId,
    /// When.
    pub at: Time,
    /// What was done, such as `tool.call`.
    pub action: String,
    /// How it went: `allowed`, `approval_required`, `denied`, `succeeded`, `failed`.
    pub outcome: String,
    /// With what.
    pub resource: String,
    /// In which run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The whole record.
    pub record: Map<String, Value>,
}

/// Which records to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AuditList {
    /// Of this run only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// With this tool only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// That went this way only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Items of a page: 1 to 500.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u64>,
    /// Where the page begins: `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A record of what was used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageRecord {
    /// The id.
    pub id: UsageRecordId,
    /// When it was over.
    pub at: Time,
    /// What was used, such as `tool_call`.
    pub kind: String,
    /// By which agent.
    pub agent: String,
    /// In which run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The whole record.
    pub record: Map<String, Value>,
}
