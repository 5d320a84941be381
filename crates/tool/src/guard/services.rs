//! Services that the guard uses for every call: policies, redaction, artifacts and records.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::usage::limits::TOOL_OUTPUT_BYTES_MAX;
use provost_core::{Env, ToolCall, ToolResultPart};
use provost_redact::Redact;
use tokio::time::Instant;

use super::record::{CallRecord, CallStats};
use super::{Guard, GuardDecision, Permit};
use crate::artifact::store_text;
use crate::redact::{redact_error, redact_output};
use crate::{
    ArtifactStore, AuditOutcome, AuditSink, PolicyProvider, Tool, ToolContext, ToolError,
    ToolOutput, UsageSink,
};

/// Maximum size of a text that is redacted on the async runtime's thread. Larger texts are redacted on a blocking
/// thread.
const REDACT_INLINE_BYTES_MAX: usize = 1024 * 1024;

/// Services that a guard uses for every call: policies, redaction, artifacts, audit and usage records. A service that
/// is `None` is skipped.
#[derive(Clone, Default)]
pub struct GuardServices {
    /// Provides the policy of each run.
    pub policies: Option<Arc<dyn PolicyProvider>>,
    /// Removes secrets from the output of tools.
    pub redact: Option<Arc<dyn Redact>>,
    /// Stores complete outputs that are too long for a model.
    pub artifacts: Option<Arc<dyn ArtifactStore>>,
    /// Receives audit records. A call does not run if its audit record cannot be written.
    pub audit: Option<Arc<dyn AuditSink>>,
    /// Receives usage records.
    pub usage: Option<Arc<dyn UsageSink>>,
    /// Clock and random source.
    pub env: Env,
}

impl Guard {
    /// The redactor of tool calls. The context of a call needs it.
    pub fn redactor(&self) -> Option<&Arc<dyn Redact>> {
        self.services.as_ref()?.redact.as_ref()
    }

    /// Removes known secrets from a text that is not part of a tool call.
    pub fn redact(&self, mut text: String) -> String {
        if let Some(redact) = self.redactor() {
            redact.redact_string(&mut text);
        }
        text
    }

    /// Checks one call like [`Guard::check`], and records a denial or an approval requirement.
    pub async fn check_and_record(
        &self,
        tool: &Arc<dyn Tool>,
        call: &ToolCall,
        approved: bool,
    ) -> GuardDecision {
        let decision = self.check(tool, call, approved);
        self.record_decision(&decision, call).await;
        decision
    }

    /// Records a decision that does not let the call run. A permitted call is recorded when it runs.
    pub async fn record_decision(&self, decision: &GuardDecision, call: &ToolCall) {
        let Some(services) = self.services.as_ref().filter(|services| services.audit.is_some())
        else {
            return;
        };
        let (outcome, reason) = match decision {
            GuardDecision::Allow(_) | GuardDecision::Invalid(_) => return,
            GuardDecision::Ask(requirement) => {
                (AuditOutcome::ApprovalRequired, requirement.reason.as_deref().unwrap_or_default())
            }
            GuardDecision::Deny(fault) => (AuditOutcome::Denied, fault.message.as_str()),
        };
        let call_record = CallRecord::from_call(call, self.run_policy.clone());
        // The call does not run in either case, so a lost record is only logged.
        if let Err(error) = services.record_audit(&call_record, outcome, reason, None).await {
            tracing::error!(tool = call.name, %error, "denied call could not be recorded");
        }
    }

    /// Executes a call, and records it before and after. The call is denied if it cannot be recorded before.
    pub(super) async fn execute_recorded(
        &self,
        services: &GuardServices,
        permit: Permit,
        cx: ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let recorded = services.audit.is_some() || services.usage.is_some();
        let call_record = CallRecord::from_permit(&permit, &cx, recorded);
        if let Err(error) =
            services.record_audit(&call_record, AuditOutcome::Allowed, "", None).await
        {
            tracing::error!(tool = call_record.tool, %error, "call could not be recorded and is denied");
            let message = "the call could not be recorded, so it is denied";
            return Err(ToolError::Fault(ToolContractError::new(
                ToolErrorCode::PermissionDenied,
                message,
            )));
        }
        let attempts = Arc::clone(&permit.attempts);
        let started_at = Instant::now();
        let result = self.execute(permit, cx).await;
        let stats = CallStats {
            duration: started_at.elapsed(),
            attempts: attempts.load(Ordering::Relaxed).max(1),
            output_bytes: result.as_ref().map_or(0, text_bytes),
        };
        let result = match result {
            Ok(output) => Ok(services.finalize_output(output, &call_record.effect_key).await),
            Err(mut error) => {
                if let Some(redact) = &services.redact {
                    redact_error(redact.as_ref(), &mut error);
                }
                Err(error.into_bounded())
            }
        };
        services.record_call(&call_record, &stats, &result).await;
        result
    }
}

impl GuardServices {
    /// Removes secrets from an output, stores a long output as an artifact, and cuts the text. Redaction comes first,
    /// so that neither the artifact nor the cut text contains a part of a secret.
    async fn finalize_output(&self, mut output: ToolOutput, name: &str) -> ToolOutput {
        if let Some(redact) = &self.redact {
            if text_bytes(&output) <= REDACT_INLINE_BYTES_MAX {
                redact_output(redact.as_ref(), &mut output);
            } else {
                let redact = Arc::clone(redact);
                let task = tokio::task::spawn_blocking(move || {
                    redact_output(redact.as_ref(), &mut output);
                    output
                });
                // A text that could not be redacted is not shown.
                output = task
                    .await
                    .unwrap_or_else(|_| ToolOutput::error("the output could not be redacted"));
            }
        }
        let note = match &self.artifacts {
            Some(artifacts) if text_bytes(&output) > TOOL_OUTPUT_BYTES_MAX => {
                Some(match store_text(artifacts.as_ref(), name, &output.to_text()).await {
                    Ok(artifact) => artifact.note(),
                    Err(error) => {
                        tracing::warn!(%error, "output could not be stored");
                        "[the full output could not be stored]".to_owned()
                    }
                })
            }
            _ => None,
        };
        let mut output = output.into_bounded();
        output.parts.extend(note.map(|text| ToolResultPart::Text { text }));
        output
    }
}

/// Returns the size of the text parts.
fn text_bytes(output: &ToolOutput) -> usize {
    let length = |part: &ToolResultPart| match part {
        ToolResultPart::Text { text } => text.len(),
        ToolResultPart::Image(_) | ToolResultPart::File(_) | ToolResultPart::Unknown(_) => 0,
    };
    output.parts.iter().map(length).sum()
}
