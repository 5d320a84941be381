//! Audit and usage records of a call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use provost_core::ToolCall;
use provost_core::hash::{canonical_json, sha256_hex};

use super::{GuardServices, Permit};
use crate::guard::policy::{CallOrigin, RunPolicy};
use crate::record::sink::record_with_timeout;
use crate::{
    AuditOutcome, AuditRecord, SinkError, ToolContext, ToolError, ToolOutput, UsageRecord,
};

/// Component name in the records.
const COMPONENT: &str = "guard";

/// Properties of a call that are known before it runs.
pub(super) struct CallRecord {
    pub(super) tool: String,
    pub(super) effect_key: String,
    call_id: String,
    run: String,
    agent: String,
    /// Arguments as canonical JSON.
    arguments: String,
    run_policy: Option<Arc<RunPolicy>>,
}

/// Properties of a call that are known after it ran.
pub(super) struct CallStats {
    pub(super) duration: Duration,
    pub(super) attempts: u32,
    pub(super) output_bytes: usize,
}

impl CallRecord {
    /// Describes a permitted call. The arguments are serialized only if `recorded` is true.
    pub(super) fn from_permit(permit: &Permit, cx: &ToolContext, recorded: bool) -> Self {
        Self {
            tool: cx.tool().to_owned(),
            effect_key: cx.effect_key().to_string(),
            call_id: cx.call_id().to_owned(),
            run: cx.run_id().to_string(),
            agent: cx.agent().to_owned(),
            arguments: if recorded { canonical_json(&permit.arguments) } else { String::new() },
            run_policy: permit.run_policy.clone(),
        }
    }

    /// Describes a call that was not permitted.
    pub(super) fn from_call(call: &ToolCall, run_policy: Option<Arc<RunPolicy>>) -> Self {
        let origin = run_policy.as_ref().map(|run_policy| &run_policy.origin);
        let run = origin.and_then(|origin| origin.run);
        let arguments = call.parse_arguments().map(|arguments| canonical_json(&arguments));
        Self {
            tool: call.name.clone(),
            effect_key: String::new(),
            call_id: call.id.clone(),
            run: run.map(|run| run.to_string()).unwrap_or_default(),
            agent: origin.map(|origin| origin.agent.clone()).unwrap_or_default(),
            arguments: arguments.unwrap_or_else(|_| call.arguments.clone()),
            run_policy,
        }
    }

    fn origin(&self) -> CallOrigin {
        self.run_policy.as_ref().map(|run_policy| run_policy.origin.clone()).unwrap_or_default()
    }

    fn revision(&self) -> Option<&str> {
        self.run_policy.as_ref().and_then(|run_policy| run_policy.revision())
    }
}

impl GuardServices {
    /// Writes an audit record of a decision or of a completed call. Does nothing without an audit sink.
    pub(super) async fn record_audit(
        &self,
        call_record: &CallRecord,
        outcome: AuditOutcome,
        message: &str,
        stats: Option<(&CallStats, &str)>,
    ) -> Result<(), SinkError> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let origin = call_record.origin();
        let mut metadata = BTreeMap::new();
        let mut add = |name: &str, value: String| {
            if !value.is_empty() {
                metadata.insert(name.to_owned(), value);
            }
        };
        add("run", call_record.run.clone());
        add("agent", call_record.agent.clone());
        add("task", origin.task);
        add("call", call_record.call_id.clone());
        add("effect_key", call_record.effect_key.clone());
        add("policy_revision", call_record.revision().unwrap_or_default().to_owned());
        add("arguments_sha256", sha256_hex(call_record.arguments.as_bytes()));
        if let Some((stats, status)) = stats {
            add("status", status.to_owned());
            add("attempts", stats.attempts.to_string());
            add("duration_ms", stats.duration.as_millis().to_string());
        }
        let mut message = message.to_owned();
        if let Some(redact) = &self.redact {
            redact.redact_string(&mut message);
        }
        let principal =
            if origin.principal.is_empty() { call_record.agent.clone() } else { origin.principal };
        let record = AuditRecord {
            timestamp: self.env.now(),
            component: COMPONENT.to_owned(),
            action: "tool.call".to_owned(),
            outcome,
            namespace: origin.namespace,
            resource_kind: "Tool".to_owned(),
            resource_name: call_record.tool.clone(),
            principal,
            message,
            metadata,
        };
        record_with_timeout(audit, record).await
    }

    /// Records a completed call. A record that cannot be written is logged and does not change the result.
    pub(super) async fn record_call(
        &self,
        call_record: &CallRecord,
        stats: &CallStats,
        result: &Result<ToolOutput, ToolError>,
    ) {
        let fault = match result {
            Ok(_) => None,
            Err(error) => Some(error.to_contract_error()),
        };
        let is_reported = result.as_ref().is_ok_and(|output| output.is_error);
        let status = match &fault {
            Some(fault) => fault.code.as_str(),
            None if is_reported => "error",
            None => "ok",
        };
        let failed = fault.is_some() || is_reported;
        let outcome = if failed { AuditOutcome::Failed } else { AuditOutcome::Succeeded };
        let message = fault.as_ref().map(|fault| fault.message.as_str()).unwrap_or_default();
        let audit_result =
            self.record_audit(call_record, outcome, message, Some((stats, status))).await;
        let usage_result = self.record_usage(call_record, stats, status).await;
        for error in [audit_result.err(), usage_result.err()].into_iter().flatten() {
            tracing::error!(tool = call_record.tool, %error, "call could not be recorded");
        }
    }

    /// Writes a usage record of a completed call. Does nothing without a usage sink.
    async fn record_usage(
        &self,
        call_record: &CallRecord,
        stats: &CallStats,
        status: &str,
    ) -> Result<(), SinkError> {
        let Some(sink) = &self.usage else { return Ok(()) };
        let origin = call_record.origin();
        let metadata = [("run", &call_record.run), ("tool", &call_record.tool)];
        let record = UsageRecord {
            timestamp: self.env.now(),
            component: COMPONENT.to_owned(),
            kind: "tool_call".to_owned(),
            namespace: origin.namespace,
            task: origin.task,
            system: origin.system,
            agent: call_record.agent.clone(),
            worker: origin.worker,
            attempt: stats.attempts,
            message_id: call_record.call_id.clone(),
            status: status.to_owned(),
            tokens_used: 0,
            tokens_estimated: 0,
            tool_calls: 1,
            duration_ms: u64::try_from(stats.duration.as_millis()).unwrap_or(u64::MAX),
            input_bytes: call_record.arguments.len() as u64,
            output_bytes: stats.output_bytes as u64,
            metadata: metadata.map(|(name, value)| (name.to_owned(), value.clone())).into(),
        };
        record_with_timeout(sink, record).await
    }
}
