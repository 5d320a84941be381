//! Decides whether a call may run: the guard's decision and, where it needs one, a person's approval.
//!
//! Invariant: an approval counts only under the policy that asked for it, and only if enough of the required people gave it. The
//! policy is read again after each answer.

use std::sync::Arc;

use provost_core::resource::Approvers;
use provost_core::{ApprovalDecision, ApprovalRequest, ToolCall};
use provost_tool::{Asked, Guard, Permit, Tool, ToolError, Verdict};

use super::ask::ApprovalPrompt;
use super::setup::Cx;
use super::tool_call::QUESTIONS_PER_CALL_MAX;
use crate::approval::OnApproval;
use crate::run::Answer;

/// The result of an authorization.
pub(super) enum Authorization {
    Granted(Permit),
    /// The model learns the reason, and no hook may rescue the call.
    Denied(String),
    /// The model learns what is wrong, and hooks may rescue the call.
    InvalidArguments(String),
    /// The run must be suspended for this request.
    Suspend(ApprovalRequest),
}

impl Cx {
    /// Authorizes a call that has not run yet.
    pub(super) async fn authorize(
        &self,
        tool: &Arc<dyn Tool>,
        call: &ToolCall,
        answers: &[Answer],
    ) -> Authorization {
        let about_call: Vec<_> = answers.iter().filter(|answer| answer.decides_call()).collect();
        // If it was asked several times, the newest answer counts.
        if let Some(ApprovalDecision::Deny { reason }) =
            about_call.last().map(|last| &last.decision)
        {
            return rejected(reason.clone());
        }
        let guard = self.guard().await.up_to_date().await.into_owned();
        // An approval under another policy does not count.
        let approved = about_call.iter().any(|Answer { request, decision }| {
            request.call == *call
                && request.policy_revision.as_deref() == guard.revision()
                && self.satisfies(request, decision)
        });
        self.decide(guard, tool, call, approved).await
    }

    /// Authorizes a call again that ran under the policy `revision` and then asked a person: that may have taken long.
    pub(super) async fn reauthorize(
        &self,
        tool: &Arc<dyn Tool>,
        call: &ToolCall,
        revision: Option<&str>,
    ) -> Authorization {
        let guard = self.guard().await.read_again().await;
        let approved = guard.revision() == revision;
        self.decide(guard, tool, call, approved).await
    }

    /// Asks until the approval is the one that the policy of that moment requires.
    async fn decide(
        &self,
        mut guard: Guard,
        tool: &Arc<dyn Tool>,
        call: &ToolCall,
        mut approved: bool,
    ) -> Authorization {
        for questions in 0..=QUESTIONS_PER_CALL_MAX {
            let asked = match guard.admit(tool, call, approved).await {
                Verdict::Allow(permit) => return Authorization::Granted(permit),
                Verdict::Deny(fault) => return Authorization::Denied(fault.message),
                Verdict::Invalid(problem) => return Authorization::InvalidArguments(problem),
                Verdict::Ask(_) if questions == QUESTIONS_PER_CALL_MAX => break,
                Verdict::Ask(asked) => asked,
            };
            let revision = match self.approved_under(call, asked).await {
                Ok(revision) => revision,
                Err(end) => return end,
            };
            guard = self.guard().await.read_again().await;
            approved = guard.revision() == revision.as_deref();
        }
        Authorization::Denied("the policy changed each time that somebody had answered".to_owned())
    }

    /// Asks people. Returns the revision of the policy under which they approved the call.
    async fn approved_under(
        &self,
        call: &ToolCall,
        asked: Asked,
    ) -> Result<Option<String>, Authorization> {
        let Asked { needed, revision, .. } = asked;
        if revision.is_some() && matches!(self.on_approval, OnApproval::Approve) {
            let reason = "a policy wants a person to approve it, and nobody is asked here";
            return Err(Authorization::Denied(reason.to_owned()));
        }
        let approvers = (!needed.is_plain()).then(|| Box::new(needed));
        let prompt =
            ApprovalPrompt { policy_revision: revision, approvers, ..ApprovalPrompt::default() };
        let (request, decision) =
            self.request_approval(call, prompt).await.map_err(Authorization::Suspend)?;
        if let ApprovalDecision::Deny { reason } = decision {
            return Err(rejected(reason));
        }
        if !self.satisfies(&request, &decision) {
            return Err(Authorization::Denied(quorum_message(&request)));
        }
        Ok(request.policy_revision)
    }

    /// True if a decision is the approval that a request requires: of enough different people who count.
    fn satisfies(&self, request: &ApprovalRequest, decision: &ApprovalDecision) -> bool {
        match (request.approvers.as_deref(), decision) {
            (_, ApprovalDecision::Deny { .. }) => false,
            (None, _) => true,
            (Some(_), ApprovalDecision::Approve) => false,
            (Some(needed), ApprovalDecision::ApprovedBy { by }) => self.quorum_met(needed, by),
        }
    }

    fn quorum_met(&self, needed: &Approvers, by: &[String]) -> bool {
        // Who keeps a journal knows who started the run, and takes a decision in only when everybody has said so.
        if !needed.not_requester || self.journal.is_some() {
            return needed.are_met_by(by, &[]);
        }
        let requester = &self.origin().principal;
        !requester.trim().is_empty() && needed.are_met_by(by, std::slice::from_ref(requester))
    }
}

pub(super) fn rejected(reason: String) -> Authorization {
    Authorization::Denied(ToolError::Rejected(reason).to_string())
}

/// Says whose approval is missing.
fn quorum_message(request: &ApprovalRequest) -> String {
    let needed = request.approvers.as_deref().cloned().unwrap_or_default();
    let of = match needed.of.as_slice() {
        [] => String::new(),
        names => format!(" of `{}`", names.join("`, `")),
    };
    let other = if needed.not_requester { ", and not that of whoever started the run" } else { "" };
    let required = needed.required;
    format!("it needs the approval of {required}{of}{other}, and the decision does not name them")
}
