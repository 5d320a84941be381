//! Journals a tool call before it runs, and handles a call whose earlier outcome is stored or unknown.

use std::sync::Arc;
use std::time::Duration;

use provost_core::{ApprovalId, ApprovalRequestKind, EventKind, ToolCall};
use provost_tool::{Permit, ProbeOutcome, Tool};

use super::setup::DriverContext;
use super::tool_call::{CallContext, CallEnd, ToolCallOutcome};
use crate::journal::{Effect, EffectStart, ToolEffect};
use crate::run::ApprovalAnswer;

impl DriverContext {
    /// Journals that a call is about to run. Returns `Some` if the call ended without running.
    pub(super) async fn begin_effect(
        &self,
        tool: &Arc<dyn Tool>,
        permit: &Permit,
        call: &ToolCall,
        context: &CallContext,
    ) -> Option<ToolCallOutcome> {
        let journal = self.journal.as_ref()?;
        let mut effect = ToolEffect {
            call: call.clone(),
            arguments: permit.arguments().clone(),
            key: context.key.clone(),
            class: tool.spec().effect_for(permit.arguments()),
            outcome_unknown: false,
            policy_revision: permit.revision().map(Box::from),
            approvals: answered_by_people(&context.answers, permit.revision()),
        };
        loop {
            let begun = match journal.begin_effect(Effect::Tool(Box::new(effect.clone()))).await {
                Ok(begun) => begun,
                Err(error) => return Some(ended(call, CallEnd::Stopped(error))),
            };
            match begun {
                EffectStart::Proceed => return None,
                EffectStart::UseResult(result) => {
                    self.queue.emit(EventKind::ToolFinished {
                        result: Box::new(result.clone()),
                        duration: Duration::ZERO,
                    });
                    return Some(ended(call, CallEnd::Result(result)));
                }
                EffectStart::NeedsApproval(request) => {
                    self.queue
                        .emit(EventKind::ApprovalNeeded { request: Box::new(request.clone()) });
                    return Some(ended(call, CallEnd::NeedsApproval(request)));
                }
                EffectStart::Probe => {
                    match tool.probe(effect.key.clone(), effect.arguments.clone()).await {
                        ProbeOutcome::NotExecuted => return None,
                        ProbeOutcome::Completed(output) => {
                            return Some(self.finished(call.clone(), output, Duration::ZERO).await);
                        }
                        ProbeOutcome::Unknown => effect.outcome_unknown = true,
                    }
                }
            }
        }
    }
}

/// The ids of the approvals that people decided. A wait for child runs is not an approval. Decisions under an
/// outdated policy revision are left out, because they were requested again.
fn answered_by_people(answers: &[ApprovalAnswer], revision: Option<&str>) -> Vec<ApprovalId> {
    let by_people = |answer: &&ApprovalAnswer| {
        let asked_by = answer.request.policy_revision.as_deref();
        answer.request.kind != ApprovalRequestKind::Runs
            && (asked_by.is_none() || asked_by == revision)
    };
    answers.iter().filter(by_people).map(|answer| answer.request.id).collect()
}

fn ended(call: &ToolCall, end: CallEnd) -> ToolCallOutcome {
    ToolCallOutcome { effective: call.clone(), fault: false, end }
}
