//! What was used: one record per call, for bills and quotas.

use std::collections::BTreeMap;

use provost_core::Timestamp;
use serde::Serialize;

use crate::Sink;

/// One record of use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MeterEvent {
    /// When it was over.
    pub timestamp: Timestamp,
    /// Which part of the program says so.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub component: String,
    /// What was used, such as `tool_call`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Where.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// By which task.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task: String,
    /// By which system.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub system: String,
    /// By which agent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// On which worker.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub worker: String,
    /// How often it was tried.
    pub attempt: u32,
    /// The call.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message_id: String,
    /// `ok`, or the code of the fault.
    pub status: String,
    /// Tokens, where something counted them.
    pub tokens_used: u64,
    /// Tokens, where somebody guessed them.
    pub tokens_estimated: u64,
    /// Calls of tools.
    pub tool_calls: u32,
    /// How long it took.
    pub duration_ms: u64,
    /// Bytes of the arguments.
    pub input_bytes: u64,
    /// Bytes of the texts that came back, before they were cut.
    pub output_bytes: u64,
    /// Further facts: run, tool.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// Keeps records of use.
pub trait MeterSink: Sink<MeterEvent> {}

impl<S: Sink<MeterEvent> + ?Sized> MeterSink for S {}
