//! Declared tools, capabilities of the server, audit records and usage records.

use provost_core::{AuditId, RunId, UsageRecordId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::DateTime;

/// A tool that a manifest declares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolInfo {
    /// Name of the tool.
    pub name: String,
    /// Type of the tool, such as `http`, `external`, `grpc`, `webhook-callback`, `mcp` or `a2a`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Description that models receive.
    pub description: String,
    /// Operations that the tool performs: `read`, `write`, `delete` or `admin`.
    pub operations: Vec<String>,
    /// Risk of a call: `low`, `medium`, `high` or `critical`.
    pub risk: String,
    /// Effect class of a call. It determines the recovery after a crash.
    pub effect: String,
    /// Isolation mode of the tool.
    pub isolation: String,
    /// Reason why the tool cannot be called here. Absent if it can be called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
}

/// A capability of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capability {
    /// Stable id of the capability, such as `tool.http`.
    pub id: String,
    /// True if the capability is available.
    pub enabled: bool,
    /// Description of the capability.
    pub description: String,
    /// Component that reports the capability.
    pub source: String,
}

/// The capabilities of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capabilities {
    /// Time of the report.
    pub generated_at: DateTime,
    /// The capabilities, sorted by id.
    pub capabilities: Vec<Capability>,
}

/// An audit record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditRecord {
    /// Id of the record.
    pub id: AuditId,
    /// Time of the action.
    pub at: DateTime,
    /// Action, such as `tool.call`.
    pub action: String,
    /// Outcome of the action: `allowed`, `approval_required`, `denied`, `succeeded` or `failed`.
    pub outcome: String,
    /// Name of the resource, such as a tool.
    pub resource: String,
    /// Run of the action. Absent if the action does not belong to a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The complete record.
    pub record: Map<String, Value>,
}

/// Filter of the list of audit records.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AuditQuery {
    /// Lists only records of this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Lists only records of this resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Lists only records with this outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Maximum number of items in the page, from 1 to 500. The default is 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u64>,
    /// Start of the page: the `next` value of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A usage record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageRecord {
    /// Id of the record.
    pub id: UsageRecordId,
    /// Time at which the use ended.
    pub at: DateTime,
    /// Kind of the use, such as `tool_call`.
    pub kind: String,
    /// Agent that caused the use.
    pub agent: String,
    /// Run that caused the use. Absent if the use does not belong to a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The complete record.
    pub record: Map<String, Value>,
}
