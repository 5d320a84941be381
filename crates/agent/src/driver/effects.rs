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
    /// Journals that a call is about to run. `None` if it can run; otherwise the outcome of a call that must not run or
    /// has already run.
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
            approvals: human_approvals(&context.answers, permit.revision()),
        };
        loop {
            let begun = match journal.begin_effect(Effect::Tool(Box::new(effect.clone()))).await {
                Ok(begun) => begun,
                Err(error) => return Some(without_execution(call, CallEnd::Stopped(error))),
            };
            match begun {
                EffectStart::Proceed => return None,
                EffectStart::UseResult(result) => {
                    self.events.emit(EventKind::ToolFinished {
                        result: Box::new(result.clone()),
                        duration: Duration::ZERO,
                    });
                    return Some(without_execution(call, CallEnd::Result(result)));
                }
                EffectStart::NeedsApproval(request) => {
                    self.events
                        .emit(EventKind::ApprovalNeeded { request: Box::new(request.clone()) });
                    return Some(without_execution(call, CallEnd::NeedsApproval(request)));
                }
                EffectStart::Probe => {
                    match tool.probe(effect.key.clone(), effect.arguments.clone()).await {
                        ProbeOutcome::NotExecuted => return None,
                        ProbeOutcome::Completed(output) => {
                            return Some(self.finish(call.clone(), output, Duration::ZERO).await);
                        }
                        ProbeOutcome::Unknown => effect.outcome_unknown = true,
                    }
                }
            }
        }
    }
}

/// Returns the ids of the approvals that people decided. Waits for child runs, and decisions under an outdated policy
/// revision, are omitted.
fn human_approvals(answers: &[ApprovalAnswer], revision: Option<&str>) -> Vec<ApprovalId> {
    let by_people = |answer: &&ApprovalAnswer| {
        let asked_by = answer.request.policy_revision.as_deref();
        answer.request.kind != ApprovalRequestKind::Runs
            && (asked_by.is_none() || asked_by == revision)
    };
    answers.iter().filter(by_people).map(|answer| answer.request.id).collect()
}

/// Creates the outcome of a call that did not run.
fn without_execution(call: &ToolCall, end: CallEnd) -> ToolCallOutcome {
    ToolCallOutcome { effective: call.clone(), fault: false, end }
}
