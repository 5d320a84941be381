//! What stands around every call besides rules: a governor, secrets, artifacts, records.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::usage::limits::TOOL_OUTPUT_BYTES_MAX;
use provost_core::{Env, ToolCall, ToolResultPart};
use provost_redact::Redact;
use tokio::time::Instant;

use super::record::{Done, Started};
use super::{Guard, Permit, Verdict};
use crate::artifact::keep;
use crate::redact::{redact_error, redact_output};
use crate::{
    AuditOutcome, AuditSink, Governor, MeterSink, Spill, Tool, ToolCx, ToolError, ToolOutput,
};

/// Bytes of text that are searched for secrets without leaving the runtime's thread.
const REDACT_INLINE_BYTES_MAX: usize = 1024 * 1024;

/// What stands around every call of a guard. Without a governor nobody governs; the rest is left out likewise.
#[derive(Clone, Default)]
pub struct Oversight {
    /// Reads what governs a run.
    pub governor: Option<Arc<dyn Governor>>,
    /// Takes secrets out of everything that a tool says.
    pub redact: Option<Arc<dyn Redact>>,
    /// Keeps whole outputs.
    pub spill: Option<Arc<dyn Spill>>,
    /// Keeps who did what. A call whose permission cannot be recorded does not run.
    pub audit: Option<Arc<dyn AuditSink>>,
    /// Keeps what was used.
    pub meter: Option<Arc<dyn MeterSink>>,
    /// Time.
    pub env: Env,
}

impl Guard {
    /// A text without the secrets that are known here, for what is said of a run besides its calls.
    pub fn redacted(&self, mut text: String) -> String {
        if let Some(redact) =
            self.oversight.as_ref().and_then(|oversight| oversight.redact.as_ref())
        {
            redact.redact_string(&mut text);
        }
        text
    }

    /// Looks at one call like [`Guard::check`] and records a no or a question.
    pub async fn admit(&self, tool: &Arc<dyn Tool>, call: &ToolCall, approved: bool) -> Verdict {
        let verdict = self.check(tool, call, approved);
        self.record_verdict(&verdict, call).await;
        verdict
    }

    /// Records a verdict that lets nothing through. What is let through is recorded when it runs.
    pub async fn record_verdict(&self, verdict: &Verdict, call: &ToolCall) {
        let Some(oversight) = self.oversight.as_ref().filter(|oversight| oversight.audit.is_some())
        else {
            return;
        };
        let (outcome, why) = match verdict {
            Verdict::Allow(_) | Verdict::Invalid(_) => return,
            Verdict::Ask(asked) => {
                (AuditOutcome::ApprovalRequired, asked.why.as_deref().unwrap_or_default())
            }
            Verdict::Deny(fault) => (AuditOutcome::Denied, fault.message.as_str()),
        };
        let started = Started::of_call(call, self.seat.clone());
        // It does not run either way; the record's loss is told where failures are.
        if let Err(error) = oversight.audit(&started, outcome, why, None).await {
            tracing::error!(tool = call.name, %error, "a refused call could not be recorded");
        }
    }

    /// Runs a call with records before and after.
    pub(super) async fn run_overseen(
        &self,
        oversight: &Oversight,
        permit: Permit,
        cx: ToolCx,
    ) -> Result<ToolOutput, ToolError> {
        let recorded = oversight.audit.is_some() || oversight.meter.is_some();
        let started = Started::of_permit(&permit, &cx, recorded);
        if let Some(redact) = &oversight.redact {
            cx.redact_with(redact);
        }
        if let Err(error) = oversight.audit(&started, AuditOutcome::Allowed, "", None).await {
            tracing::error!(tool = started.tool, %error, "a call could not be recorded and is denied");
            let message = "the call could not be recorded, so it is denied";
            return Err(ToolError::Fault(ToolContractError::new(
                ToolErrorCode::PermissionDenied,
                message,
            )));
        }
        let attempts = Arc::clone(&permit.attempts);
        let began = Instant::now();
        let result = self.execute(permit, cx).await;
        let done = Done {
            duration: began.elapsed(),
            attempts: attempts.load(Ordering::Relaxed).max(1),
            output_bytes: result.as_ref().map_or(0, text_bytes),
        };
        let result = match result {
            Ok(output) => Ok(oversight.seal(output, &started.effect_key).await),
            Err(mut error) => {
                if let Some(redact) = &oversight.redact {
                    redact_error(redact.as_ref(), &mut error);
                }
                Err(error.bounded())
            }
        };
        oversight.record(&started, &done, &result).await;
        result
    }
}

impl Oversight {
    /// Secrets first, so that neither a cut nor an artifact holds a part of one; then the whole is kept, then it is cut.
    async fn seal(&self, mut output: ToolOutput, name: &str) -> ToolOutput {
        if let Some(redact) = &self.redact {
            if text_bytes(&output) <= REDACT_INLINE_BYTES_MAX {
                redact_output(redact.as_ref(), &mut output);
            } else {
                let redact = Arc::clone(redact);
                let searched = tokio::task::spawn_blocking(move || {
                    redact_output(redact.as_ref(), &mut output);
                    output
                });
                // What could not be searched is not shown.
                output = searched
                    .await
                    .unwrap_or_else(|_| ToolOutput::error("the output could not be searched"));
            }
        }
        let note = match &self.spill {
            Some(spill) if text_bytes(&output) > TOOL_OUTPUT_BYTES_MAX => {
                Some(match keep(spill.as_ref(), name, &output.to_text()).await {
                    Ok(artifact) => artifact.note(),
                    Err(error) => {
                        tracing::warn!(%error, "an output could not be kept whole");
                        "[the whole output could not be kept]".to_owned()
                    }
                })
            }
            _ => None,
        };
        let mut output = output.bounded();
        output.parts.extend(note.map(|text| ToolResultPart::Text { text }));
        output
    }
}

fn text_bytes(output: &ToolOutput) -> usize {
    let length = |part: &ToolResultPart| match part {
        ToolResultPart::Text { text } => text.len(),
        ToolResultPart::Image(_) | ToolResultPart::File(_) | ToolResultPart::Unknown(_) => 0,
    };
    output.parts.iter().map(length).sum()
}
