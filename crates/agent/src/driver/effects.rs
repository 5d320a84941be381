//! A tool call and the journal: what may run, what was done before, what nobody knows.

use std::sync::Arc;
use std::time::Duration;

use provost_core::{ApprovalId, EventKind, RequestKind, ToolCall};
use provost_tool::{Permit, Probe, Tool};

use super::setup::Cx;
use super::tool_call::{CallContext, CallEnd, CallOutcome};
use crate::journal::{Begun, Effect, ToolEffect};
use crate::run::Answer;

impl Cx {
    /// Writes down that a call is about to run. `Some` is how it ended without being run.
    pub(super) async fn begin_effect(
        &self,
        tool: &Arc<dyn Tool>,
        permit: &Permit,
        call: &ToolCall,
        context: &CallContext,
    ) -> Option<CallOutcome> {
        let journal = self.journal.as_ref()?;
        let mut effect = ToolEffect {
            call: call.clone(),
            arguments: permit.arguments().clone(),
            key: context.key.clone(),
            class: tool.spec().effect_for(permit.arguments()),
            unsure: false,
            policy_revision: permit.revision().map(Box::from),
            approvals: answered_by_people(&context.answers, permit.revision()),
        };
        loop {
            let begun = match journal.begin(Effect::Tool(Box::new(effect.clone()))).await {
                Ok(begun) => begun,
                Err(error) => return Some(ended(call, CallEnd::Stopped(error))),
            };
            match begun {
                Begun::Go => return None,
                Begun::Settled(result) => {
                    self.queue.emit(EventKind::ToolFinished {
                        result: Box::new(result.clone()),
                        duration: Duration::ZERO,
                    });
                    return Some(ended(call, CallEnd::Result(result)));
                }
                Begun::Ask(request) => {
                    self.queue
                        .emit(EventKind::ApprovalNeeded { request: Box::new(request.clone()) });
                    return Some(ended(call, CallEnd::NeedsApproval(request)));
                }
                Begun::Probe => {
                    match tool.probe(effect.key.clone(), effect.arguments.clone()).await {
                        Probe::NotDone => return None,
                        Probe::Done(output) => {
                            return Some(self.finished(call.clone(), output, Duration::ZERO).await);
                        }
                        Probe::Unsure => effect.unsure = true,
                    }
                }
            }
        }
    }
}

/// The questions that people have answered; that children have ended is nobody's word.
/// What was answered under a policy that no longer counts was asked again.
fn answered_by_people(answers: &[Answer], revision: Option<&str>) -> Vec<ApprovalId> {
    let by_people = |answer: &&Answer| {
        let asked_by = answer.request.policy_revision.as_deref();
        answer.request.kind != RequestKind::Runs && (asked_by.is_none() || asked_by == revision)
    };
    answers.iter().filter(by_people).map(|answer| answer.request.id).collect()
}

fn ended(call: &ToolCall, end: CallEnd) -> CallOutcome {
    CallOutcome { effective: call.clone(), fault: false, end }
}
