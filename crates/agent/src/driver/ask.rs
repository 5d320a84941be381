//! Questions to people: approvals before and inside a call, and what to do at a limit.

use std::sync::{Arc, Weak};

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::resource::Approvers;
use provost_core::{ApprovalDecision, ApprovalRequest, EventKind, RequestKind, ToolCall};
use provost_tool::{Confirm, Conversation, ToolCx, ToolError};
use serde_json::Value;

use super::setup::Cx;
use super::tool_call::CallContext;
use super::{Driver, hook_error};
use crate::approval::OnApproval;
use crate::error::Error;
use crate::run::{Answer, Feed, LimitDecision, LimitQuestion, answer_to, has_waited};

impl Cx {
    /// The question about this exact call with a person's answer; `Err` is the question alone, where the run must be suspended
    /// for it.
    pub(crate) async fn request_approval(
        &self,
        call: &ToolCall,
        prompt: ApprovalPrompt,
    ) -> Result<(ApprovalRequest, ApprovalDecision), ApprovalRequest> {
        let ApprovalPrompt { kind, hint, payload, policy_revision, approvers } = prompt;
        let (id, call) = (self.env.id(), call.clone());
        let request = ApprovalRequest { id, kind, call, hint, payload, policy_revision, approvers };
        match &self.on_approval {
            OnApproval::Approve => return Ok((request, ApprovalDecision::Approve)),
            OnApproval::Deny => {
                let reason = "it needs a person's approval and nobody can be asked".to_owned();
                return Ok((request, ApprovalDecision::Deny { reason }));
            }
            OnApproval::Events | OnApproval::Ask(_) | OnApproval::Suspend => {}
        }
        if matches!(self.on_approval, OnApproval::Events) {
            self.asks().expect_decision(request.id);
        }
        self.queue.emit(EventKind::ApprovalNeeded { request: Box::new(request.clone()) });
        let decision = match &self.on_approval {
            OnApproval::Ask(provider) => match provider(request.clone()).await {
                Ok(decision) => decision,
                Err(problem) => ApprovalDecision::Deny { reason: problem },
            },
            OnApproval::Events => self.asks().decision(request.id).await,
            _ => return Err(request),
        };
        let id = request.id;
        self.queue.emit(EventKind::ApprovalDecided { id, decision: decision.clone() });
        Ok((request, decision))
    }
}

/// The contents of an approval request besides the call.
#[derive(Default)]
pub(crate) struct ApprovalPrompt {
    /// What the person decides.
    pub(crate) kind: RequestKind,
    /// Why it asks, in the words of the tool; nothing if it is asked before the tool runs.
    pub(crate) hint: Option<String>,
    pub(crate) payload: Option<Value>,
    pub(crate) policy_revision: Option<String>,
    /// Whose approval counts, where anybody's one yes is not enough.
    pub(crate) approvers: Option<Box<Approvers>>,
}

/// A running tool's way to people.
pub(crate) struct Outside {
    /// Weak: a tool that outlives its run must not keep it alive.
    cx: Weak<Cx>,
    call: ToolCall,
    /// What was answered before the tool was started again.
    answers: Vec<Answer>,
    /// The turn of the call.
    turn: u32,
}

impl Outside {
    pub(super) fn new(cx: &Arc<Cx>, call: &ToolCall, context: &CallContext) -> Self {
        let CallContext { answers, turn, .. } = context;
        let (call, answers) = (call.clone(), answers.clone());
        Self { cx: Arc::downgrade(cx), call, answers, turn: *turn }
    }
}

impl Confirm for Outside {
    fn confirm<'a>(
        &'a self,
        _cx: &'a ToolCx,
        hint: String,
        payload: Option<Value>,
    ) -> BoxFuture<'a, Result<ApprovalDecision, ToolError>> {
        async move {
            if let Some(given) = answer_to(&self.answers, Some(&hint), payload.as_ref()) {
                return Ok(given.clone());
            }
            let Some(cx) = self.cx.upgrade() else {
                return Err(ToolError::Rejected("the run is over".to_owned()));
            };
            if matches!(cx.on_approval, OnApproval::Suspend) {
                return Err(ToolError::NeedsApproval { hint, payload });
            }
            let prompt = ApprovalPrompt { hint: Some(hint), payload, ..ApprovalPrompt::default() };
            let answer = cx.request_approval(&self.call, prompt).await;
            Ok(answer.map_or_else(
                |question| ApprovalDecision::Deny {
                    reason: format!("nobody could be asked about {}", question.call.name),
                },
                |(_, decision)| decision,
            ))
        }
        .boxed()
    }

    fn has_waited(&self, wait: &Value) -> bool {
        has_waited(&self.answers, wait)
    }

    fn progress(&self, _cx: &ToolCx, message: String) {
        if let Some(cx) = self.cx.upgrade() {
            cx.queue.emit(EventKind::ToolProgress { call_id: self.call.id.clone(), message });
        }
    }

    fn conversation(&self) -> Option<Conversation> {
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
                cx.queue.emit(EventKind::WorkspaceReset { reason });
                Ok(())
            }
        }))
    }
}

impl Driver {
    pub(super) async fn ask_limit(&mut self, question: LimitQuestion) -> Result<(), Error> {
        let Some(ask) = self.cx.core.ask_limit.clone() else {
            return Err(Error::Bug("a limit asks and nobody answers".to_owned()));
        };
        self.tell_limit(question.reached.clone());
        let decision = ask(question).await.map_err(hook_error("ask_at_limit"))?;
        // An extended run can reach the limit again.
        self.limit_told =
            matches!(decision, LimitDecision::FinalAnswer { .. } | LimitDecision::Stop);
        if !self.limit_told {
            self.cx.pot.extend();
        }
        let produced = self.run.produced().len();
        self.feed(Feed::LimitDecided { decision, at: self.now() })?;
        self.tell_refused(produced);
        Ok(())
    }
}
