//! Who did what, and was it allowed: one record per decision and one per call.

use std::collections::BTreeMap;

use provost_core::Timestamp;
use serde::Serialize;

use crate::Sink;

/// One record for whoever must be able to say later what happened. Never a secret, never the arguments themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditEvent {
    /// When.
    pub timestamp: Timestamp,
    /// Which part of the program says so.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub component: String,
    /// What was done, such as `tool.call`.
    pub action: String,
    /// How it went.
    pub outcome: AuditOutcome,
    /// Where.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// What sort of thing it was done with.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_kind: String,
    /// Which one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_name: String,
    /// Who did it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub principal: String,
    /// A sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Further facts: run, agent, task, call, policy revision, hash of the arguments, code, attempts, duration.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// How something went that is audited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    /// It may run; written before it does.
    Allowed,
    /// A person must decide.
    ApprovalRequired,
    /// It may not run.
    Denied,
    /// It ran and worked.
    Succeeded,
    /// It ran and did not work.
    Failed,
}

/// Keeps audit records.
pub trait AuditSink: Sink<AuditEvent> {}

impl<S: Sink<AuditEvent> + ?Sized> AuditSink for S {}
