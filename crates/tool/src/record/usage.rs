//! Usage records: one for each call, for billing and quotas.

use std::collections::BTreeMap;

use provost_core::Timestamp;
use serde::Serialize;

use crate::RecordSink;

/// Record of the resources that a tool call used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UsageRecord {
    /// Time at which the call ended.
    pub timestamp: Timestamp,
    /// Component that wrote the record.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub component: String,
    /// Type of usage, such as `tool_call`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Namespace of the run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Task of the run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task: String,
    /// System of the run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub system: String,
    /// Agent of the run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// Worker that executed the run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub worker: String,
    /// Number of attempts.
    pub attempt: u32,
    /// Id of the call.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message_id: String,
    /// `ok`, or the error code.
    pub status: String,
    /// Number of tokens that were counted.
    pub tokens_used: u64,
    /// Number of tokens that were estimated.
    pub tokens_estimated: u64,
    /// Number of tool calls.
    pub tool_calls: u32,
    /// Duration in milliseconds.
    pub duration_ms: u64,
    /// Size of the arguments in bytes.
    pub input_bytes: u64,
    /// Size of the output texts in bytes, before truncation.
    pub output_bytes: u64,
    /// Further data: run and tool.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// Receives usage records.
pub trait UsageSink: RecordSink<UsageRecord> {}

impl<S: RecordSink<UsageRecord> + ?Sized> UsageSink for S {}
