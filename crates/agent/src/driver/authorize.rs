//! Decides whether a call may run: the guard's decision and, where it needs one, a person's approval.
//!
//! Invariant: an approval counts only under the policy revision that requested it, and only from enough of the
//! required approvers. The policy is read again after each decision.

use std::sync::Arc;

use provost_core::resource::Approvers;
use provost_core::{ApprovalDecision, ApprovalRequest, ToolCall};
use provost_tool::{ApprovalRequirement, Guard, GuardDecision, Permit, Tool, ToolError};

use super::ask::ApprovalPrompt;
use super::setup::DriverContext;
use super::tool_call::QUESTIONS_PER_CALL_MAX;
use crate::approval::ApprovalMode;
use crate::run::ApprovalAnswer;

/// Result of authorizing a call.
pub(super) enum Authorization {
    Granted(Permit),
    /// The model receives the reason. No hook may replace the result.
    Denied(String),
    /// The model receives the problem. Hooks may replace the result.
    InvalidArguments(String),
    /// The run must be suspended until this request is decided.
    Suspend(ApprovalRequest),
}

impl DriverContext {
    /// Authorizes a call that has not run yet: by earlier decisions, the guard and new approvals.
    pub(super) async fn authorize(
        &self,
        tool: &Arc<dyn Tool>,
        call: &ToolCall,
        answers: &[ApprovalAnswer],
    ) -> Authorization {
        let about_call: Vec<_> = answers.iter().filter(|answer| answer.is_about_call()).collect();
        // If the call was decided several times, the newest decision counts.
        if let Some(ApprovalDecision::Deny { reason }) =
            about_call.last().map(|last| &last.decision)
        {
            return deny_with_reason(reason.clone());
        }
        let guard = self.guard().await.refresh().await.into_owned();
        // An approval under another policy revision does not count.
        let approved = about_call.iter().any(|ApprovalAnswer { request, decision }| {
            request.call == *call
                && request.policy_revision.as_deref() == guard.revision()
                && self.satisfies(request, decision)
        });
        self.decide(guard, tool, call, approved).await
    }

    /// Authorizes a call again after its tool requested a decision while running under policy `revision`. The policy
    /// may have changed while the decision was pending.
    pub(super) async fn reauthorize(
        &self,
        tool: &Arc<dyn Tool>,
        call: &ToolCall,
        revision: Option<&str>,
    ) -> Authorization {
        let guard = self.guard().await.reload().await;
        let approved = guard.revision() == revision;
        self.decide(guard, tool, call, approved).await
    }

    /// Asks the guard, and requests approvals until one satisfies the current policy.
    async fn decide(
        &self,
        mut guard: Guard,
        tool: &Arc<dyn Tool>,
        call: &ToolCall,
        mut approved: bool,
    ) -> Authorization {
        for questions in 0..=QUESTIONS_PER_CALL_MAX {
            let requirement = match guard.check_and_record(tool, call, approved).await {
                GuardDecision::Allow(permit) => return Authorization::Granted(permit),
                GuardDecision::Deny(fault) => return Authorization::Denied(fault.message),
                GuardDecision::Invalid(problem) => return Authorization::InvalidArguments(problem),
                GuardDecision::Ask(_) if questions == QUESTIONS_PER_CALL_MAX => break,
                GuardDecision::Ask(requirement) => requirement,
            };
            let revision = match self.request_guard_approval(call, requirement).await {
                Ok(revision) => revision,
                Err(end) => return end,
            };
            guard = self.guard().await.reload().await;
            approved = guard.revision() == revision.as_deref();
        }
        Authorization::Denied("the policy changed after every approval decision".to_owned())
    }

    /// Requests the approval that the guard requires. Returns the policy revision under which the call was approved, or
    /// the reason why the call ends.
    async fn request_guard_approval(
        &self,
        call: &ToolCall,
        requirement: ApprovalRequirement,
    ) -> Result<Option<String>, Authorization> {
        let ApprovalRequirement { approvers: needed, revision, .. } = requirement;
        if revision.is_some() && matches!(self.on_approval, ApprovalMode::AutoApprove) {
            let reason = "a policy requires an approval by a person, and this run approves calls automatically";
            return Err(Authorization::Denied(reason.to_owned()));
        }
        let approvers = (!needed.is_default()).then(|| Box::new(needed));
        let prompt =
            ApprovalPrompt { policy_revision: revision, approvers, ..ApprovalPrompt::default() };
        let (request, decision) =
            self.request_approval(call, prompt).await.map_err(Authorization::Suspend)?;
        if let ApprovalDecision::Deny { reason } = decision {
            return Err(deny_with_reason(reason));
        }
        if !self.satisfies(&request, &decision) {
            return Err(Authorization::Denied(quorum_message(&request)));
        }
        Ok(request.policy_revision)
    }

    /// Returns true if a decision satisfies a request: enough distinct approvers that the request permits.
    fn satisfies(&self, request: &ApprovalRequest, decision: &ApprovalDecision) -> bool {
        match (request.approvers.as_deref(), decision) {
            (_, ApprovalDecision::Deny { .. }) => false,
            (None, _) => true,
            (Some(_), ApprovalDecision::Approve) => false,
            (Some(needed), ApprovalDecision::ApprovedBy { by }) => self.is_quorum_met(needed, by),
        }
    }

    /// Returns true if enough permitted approvers have approved.
    fn is_quorum_met(&self, needed: &Approvers, by: &[String]) -> bool {
        // With a journal, the host knows the requester and submits a decision only after the quorum is met.
        if !needed.exclude_requester || self.journal.is_some() {
            return needed.is_satisfied_by(by, &[]);
        }
        let requester = &self.origin().principal;
        !requester.trim().is_empty() && needed.is_satisfied_by(by, std::slice::from_ref(requester))
    }
}

/// Creates the denial of a call that a person rejected.
pub(super) fn deny_with_reason(reason: String) -> Authorization {
    Authorization::Denied(ToolError::Rejected(reason).to_string())
}

/// Describes the missing approvals for the model.
fn quorum_message(request: &ApprovalRequest) -> String {
    let needed = request.approvers.as_deref().cloned().unwrap_or_default();
    let of = match needed.of.as_slice() {
        [] => String::new(),
        names => format!(" of `{}`", names.join("`, `")),
    };
    let other = if needed.exclude_requester { " other than the requester of the run" } else { "" };
    let required = needed.required;
    format!("it needs the approval of {required}{of}{other}, and the decision does not name them")
}
