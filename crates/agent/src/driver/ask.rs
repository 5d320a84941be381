//! Requests to people: approvals before and inside a call, and decisions at a limit.

use std::sync::{Arc, Weak};

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::resource::Approvers;
use provost_core::{ApprovalDecision, ApprovalRequest, ApprovalRequestKind, EventKind, ToolCall};
use provost_tool::{ConversationRef, RunCallbacks, ToolContext, ToolError};
use serde_json::Value;

use super::setup::DriverContext;
use super::tool_call::CallContext;
use super::{Driver, hook_error};
use crate::approval::ApprovalMode;
use crate::error::Error;
use crate::on_limit::OnLimit;
use crate::run::{
    ApprovalAnswer, JournalEntry, LimitContext, LimitDecision, decision_for, has_waited,
};

impl DriverContext {
    /// Requests an approval for this exact call and waits for the decision. Returns both, or the undecided request as
    /// an error if the run must be suspended for it.
    pub(crate) async fn request_approval(
        &self,
        call: &ToolCall,
        prompt: ApprovalPrompt,
    ) -> Result<(ApprovalRequest, ApprovalDecision), ApprovalRequest> {
        let ApprovalPrompt { kind, hint, payload, policy_revision, approvers } = prompt;
        let (id, call) = (self.env.id(), call.clone());
        let request = ApprovalRequest { id, kind, call, hint, payload, policy_revision, approvers };
        match &self.on_approval {
            ApprovalMode::AutoApprove => return Ok((request, ApprovalDecision::Approve)),
            ApprovalMode::Deny => {
                let reason = "it requires an approval, and no approver is available".to_owned();
                return Ok((request, ApprovalDecision::Deny { reason }));
            }
            ApprovalMode::Interactive | ApprovalMode::Callback(_) | ApprovalMode::Suspend => {}
        }
        if matches!(self.on_approval, ApprovalMode::Interactive) {
            self.approval_control().expect_decision(request.id);
        }
        self.events.emit(EventKind::ApprovalNeeded { request: Box::new(request.clone()) });
        let decision = match &self.on_approval {
            ApprovalMode::Callback(provider) => match provider(request.clone()).await {
                Ok(decision) => decision,
                Err(problem) => ApprovalDecision::Deny { reason: problem },
            },
            ApprovalMode::Interactive => self.approval_control().decision(request.id).await,
            _ => return Err(request),
        };
        let id = request.id;
        self.events.emit(EventKind::ApprovalDecided { id, decision: decision.clone() });
        Ok((request, decision))
    }
}

/// The contents of an approval request, without the call.
#[derive(Default)]
pub(crate) struct ApprovalPrompt {
    /// The kind of decision.
    pub(crate) kind: ApprovalRequestKind,
    /// The tool's own description of the request. `None` if the approval is requested before the tool runs.
    pub(crate) hint: Option<String>,
    pub(crate) payload: Option<Value>,
    pub(crate) policy_revision: Option<String>,
    /// The required approvers. `None` if one approval of any person is enough.
    pub(crate) approvers: Option<Box<Approvers>>,
}

/// Callbacks of a running tool into its run.
pub(crate) struct ToolCallbacks {
    /// Weak, because a tool that outlives its run must not keep it alive.
    cx: Weak<DriverContext>,
    call: ToolCall,
    /// The decisions made before the tool was started again.
    answers: Vec<ApprovalAnswer>,
    /// The turn of the call.
    turn: u32,
}

impl ToolCallbacks {
    pub(super) fn new(cx: &Arc<DriverContext>, call: &ToolCall, context: &CallContext) -> Self {
        let CallContext { answers, turn, .. } = context;
        let (call, answers) = (call.clone(), answers.clone());
        Self { cx: Arc::downgrade(cx), call, answers, turn: *turn }
    }
}

impl RunCallbacks for ToolCallbacks {
    fn confirm<'a>(
        &'a self,
        _cx: &'a ToolContext,
        hint: String,
        payload: Option<Value>,
    ) -> BoxFuture<'a, Result<ApprovalDecision, ToolError>> {
        async move {
            if let Some(given) = decision_for(&self.answers, Some(&hint), payload.as_ref()) {
                return Ok(given.clone());
            }
            let Some(cx) = self.cx.upgrade() else {
                return Err(ToolError::Rejected("the run is over".to_owned()));
            };
            if matches!(cx.on_approval, ApprovalMode::Suspend) {
                return Err(ToolError::NeedsApproval { hint, payload });
            }
            let prompt = ApprovalPrompt { hint: Some(hint), payload, ..ApprovalPrompt::default() };
            let answer = cx.request_approval(&self.call, prompt).await;
            Ok(answer.map_or_else(
                |question| ApprovalDecision::Deny {
                    reason: format!("no approver was available for {}", question.call.name),
                },
                |(_, decision)| decision,
            ))
        }
        .boxed()
    }

    fn has_waited(&self, wait: &Value) -> bool {
        has_waited(&self.answers, wait)
    }

    fn progress(&self, _cx: &ToolContext, message: String) {
        if let Some(cx) = self.cx.upgrade() {
            cx.events.emit(EventKind::ToolProgress { call_id: self.call.id.clone(), message });
        }
    }

    fn conversation(&self) -> Option<ConversationRef> {
        let cx = self.cx.upgrade()?;
        let told = Weak::clone(&self.cx);
        let conversation = cx.conversation().in_turn(format!("{}/{}", cx.run_id, self.turn));
        Some(conversation.on_workspace_reset(move |reason| {
            let told = Weak::clone(&told);
            async move {
                let Some(cx) = told.upgrade() else { return Ok(()) };
                if let Some(journal) = &cx.journal {
                    let noted = journal.workspace_reset(&reason).await;
                    noted.map_err(|error| error.to_string())?;
                }
                cx.events.emit(EventKind::WorkspaceReset { reason });
                Ok(())
            }
        }))
    }
}

impl Driver {
    /// Calls the program's function at a limit, and applies its decision.
    pub(super) async fn ask_limit(&mut self, question: LimitContext) -> Result<(), Error> {
        let OnLimit::Callback(decide) = self.cx.definition.on_limit.clone() else {
            let problem = "a limit needs a decision, but the agent has no callback";
            return Err(Error::Bug(problem.to_owned()));
        };
        self.emit_limit_reached(question.reached.clone());
        let decision = decide(question).await.map_err(hook_error("on_limit"))?;
        // An extended run can reach the limit again.
        self.limit_emitted =
            matches!(decision, LimitDecision::FinalAnswer { .. } | LimitDecision::Stop);
        if !self.limit_emitted {
            self.cx.budget.extend();
        }
        let produced = self.run.new_messages().len();
        self.apply_entry(JournalEntry::LimitDecided { decision, at: self.now() })?;
        self.emit_skipped_results(produced);
        Ok(())
    }
}
