//! What is recorded of a call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use provost_core::ToolCall;
use provost_core::hash::{canonical_json, sha256_hex};

use super::{Oversight, Permit};
use crate::guard::policy::{Origin, Seat};
use crate::record::sink::kept;
use crate::{AuditEvent, AuditOutcome, MeterEvent, SinkError, ToolCx, ToolError, ToolOutput};

/// Who says so.
const COMPONENT: &str = "guard";

/// What is known of a call before it runs.
pub(super) struct Started {
    pub(super) tool: String,
    pub(super) effect_key: String,
    call_id: String,
    run: String,
    agent: String,
    /// The canonical arguments.
    arguments: String,
    seat: Option<Arc<Seat>>,
}

/// What is known of it afterwards.
pub(super) struct Done {
    pub(super) duration: Duration,
    pub(super) attempts: u32,
    pub(super) output_bytes: usize,
}

impl Started {
    /// The arguments are put into words only if somebody records them.
    pub(super) fn of_permit(permit: &Permit, cx: &ToolCx, recorded: bool) -> Self {
        Self {
            tool: cx.tool().to_owned(),
            effect_key: cx.effect_key().to_string(),
            call_id: cx.call_id().to_owned(),
            run: cx.run_id().to_string(),
            agent: cx.agent().to_owned(),
            arguments: if recorded { canonical_json(&permit.arguments) } else { String::new() },
            seat: permit.seat.clone(),
        }
    }

    pub(super) fn of_call(call: &ToolCall, seat: Option<Arc<Seat>>) -> Self {
        let origin = seat.as_ref().map(|seat| &seat.origin);
        let run = origin.and_then(|origin| origin.run);
        let arguments = call.parse_arguments().map(|arguments| canonical_json(&arguments));
        Self {
            tool: call.name.clone(),
            effect_key: String::new(),
            call_id: call.id.clone(),
            run: run.map(|run| run.to_string()).unwrap_or_default(),
            agent: origin.map(|origin| origin.agent.clone()).unwrap_or_default(),
            arguments: arguments.unwrap_or_else(|_| call.arguments.clone()),
            seat,
        }
    }

    fn origin(&self) -> Origin {
        self.seat.as_ref().map(|seat| seat.origin.clone()).unwrap_or_default()
    }

    fn revision(&self) -> Option<&str> {
        self.seat.as_ref().and_then(|seat| seat.revision())
    }
}

impl Oversight {
    /// Records a decision, or how a call went.
    pub(super) async fn audit(
        &self,
        started: &Started,
        outcome: AuditOutcome,
        message: &str,
        done: Option<(&Done, &str)>,
    ) -> Result<(), SinkError> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let origin = started.origin();
        let mut metadata = BTreeMap::new();
        let mut add = |name: &str, value: String| {
            if !value.is_empty() {
                metadata.insert(name.to_owned(), value);
            }
        };
        add("run", started.run.clone());
        add("agent", started.agent.clone());
        add("task", origin.task);
        add("call", started.call_id.clone());
        add("effect_key", started.effect_key.clone());
        add("policy_revision", started.revision().unwrap_or_default().to_owned());
        add("arguments_sha256", sha256_hex(started.arguments.as_bytes()));
        if let Some((done, status)) = done {
            add("status", status.to_owned());
            add("attempts", done.attempts.to_string());
            add("duration_ms", done.duration.as_millis().to_string());
        }
        let mut message = message.to_owned();
        if let Some(redact) = &self.redact {
            redact.redact_string(&mut message);
        }
        let principal =
            if origin.principal.is_empty() { started.agent.clone() } else { origin.principal };
        let event = AuditEvent {
            timestamp: self.env.now(),
            component: COMPONENT.to_owned(),
            action: "tool.call".to_owned(),
            outcome,
            namespace: origin.namespace,
            resource_kind: "Tool".to_owned(),
            resource_name: started.tool.clone(),
            principal,
            message,
            metadata,
        };
        kept(audit, event).await
    }

    /// Records how a call went. It has happened, so a record that is lost is told and changes nothing.
    pub(super) async fn record(
        &self,
        started: &Started,
        done: &Done,
        result: &Result<ToolOutput, ToolError>,
    ) {
        let fault = match result {
            Ok(_) => None,
            Err(error) => Some(error.fault()),
        };
        let reported = result.as_ref().is_ok_and(|output| output.is_error);
        let status = match &fault {
            Some(fault) => fault.code.as_str(),
            None if reported => "error",
            None => "ok",
        };
        let failed = fault.is_some() || reported;
        let outcome = if failed { AuditOutcome::Failed } else { AuditOutcome::Succeeded };
        let message = fault.as_ref().map(|fault| fault.message.as_str()).unwrap_or_default();
        let audited = self.audit(started, outcome, message, Some((done, status))).await;
        let metered = self.measure(started, done, status).await;
        for error in [audited.err(), metered.err()].into_iter().flatten() {
            tracing::error!(tool = started.tool, %error, "how a call went could not be recorded");
        }
    }

    async fn measure(&self, started: &Started, done: &Done, status: &str) -> Result<(), SinkError> {
        let Some(meter) = &self.meter else { return Ok(()) };
        let origin = started.origin();
        let metadata = [("run", &started.run), ("tool", &started.tool)];
        let event = MeterEvent {
            timestamp: self.env.now(),
            component: COMPONENT.to_owned(),
            kind: "tool_call".to_owned(),
            namespace: origin.namespace,
            task: origin.task,
            system: origin.system,
            agent: started.agent.clone(),
            worker: origin.worker,
            attempt: done.attempts,
            message_id: started.call_id.clone(),
            status: status.to_owned(),
            tokens_used: 0,
            tokens_estimated: 0,
            tool_calls: 1,
            duration_ms: u64::try_from(done.duration.as_millis()).unwrap_or(u64::MAX),
            input_bytes: started.arguments.len() as u64,
            output_bytes: done.output_bytes as u64,
            metadata: metadata.map(|(name, value)| (name.to_owned(), value.clone())).into(),
        };
        kept(meter, event).await
    }
}
