//! Audit records: one for each decision and one for each completed call.

use std::collections::BTreeMap;

use provost_core::Timestamp;
use serde::Serialize;

use crate::RecordSink;

/// Record of a decision about a tool call, or of its result. It contains neither secrets nor the arguments of the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditRecord {
    /// Time of the event.
    pub timestamp: Timestamp,
    /// Component that wrote the record.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub component: String,
    /// Action, such as `tool.call`.
    pub action: String,
    /// Outcome of the action.
    pub outcome: AuditOutcome,
    /// Namespace of the run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Kind of the resource that the action used.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_kind: String,
    /// Name of the resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_name: String,
    /// Principal that performed the action.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub principal: String,
    /// Description of the outcome.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Further data: run, agent, task, call, policy revision, hash of the arguments, code, attempts and duration.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// Outcome of an audited action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    /// The call may run. This record is written before the call.
    Allowed,
    /// The call needs approval.
    ApprovalRequired,
    /// The call may not run.
    Denied,
    /// The call succeeded.
    Succeeded,
    /// The call failed.
    Failed,
}

/// Receives audit records.
pub trait AuditSink: RecordSink<AuditRecord> {}

impl<S: RecordSink<AuditRecord> + ?Sized> AuditSink for S {}
