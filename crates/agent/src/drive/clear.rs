//! Whether a call may run: the guard's word and, where it says so, that of people.
//!
//! Invariant: a yes counts only under the policy that asked for it, and only if enough of those who count have given it. The
//! policy is read again once people have answered.

use std::sync::Arc;

use provost_core::resource::Approvers;
use provost_core::{ApprovalDecision, ApprovalRequest, ToolCall};
use provost_tool::{Asked, Guard, Permit, Tool, ToolError, Verdict};

use super::ask::Asking;
use super::setup::Cx;
use super::tool_call::QUESTIONS_PER_CALL_MAX;
use crate::approval::OnApproval;
use crate::run::Answer;

/// Why a call may not run, or that it may.
pub(super) enum Cleared {
    Run(Permit),
    /// Refused: the model is told, no hook may rescue it.
    Refused(String),
    /// Wrong: the model is told, hooks may rescue it.
    Wrong(String),
    Suspend(ApprovalRequest),
}

impl Cx {
    /// The guard's word and, where it says so, that of people.
    pub(super) async fn clear(
        &self,
        tool: &Arc<dyn Tool>,
        call: &ToolCall,
        answers: &[Answer],
    ) -> Cleared {
        let before_it_ran =
            |answer: &&Answer| answer.request.hint.is_none() && answer.request.payload.is_none();
        // Where it was asked again, the newest answer counts.
        let newest = answers.iter().rfind(before_it_ran).map(|answer| &answer.decision);
        if let Some(ApprovalDecision::Deny { reason }) = newest {
            return Cleared::Refused(ToolError::Rejected(reason.clone()).to_string());
        }
        let guard = self.guard().await.up_to_date().await;
        // What was approved under another policy is asked again.
        let approved = answers.iter().filter(before_it_ran).any(|Answer { request, decision }| {
            request.call == *call
                && request.policy_revision.as_deref() == guard.revision()
                && self.is_enough(request, decision)
        });
        self.admit(&guard, tool, call, approved).await
    }

    /// The same for a call that had been let through and then asked people something: that may have taken long.
    pub(super) async fn clear_again(
        &self,
        tool: &Arc<dyn Tool>,
        call: &ToolCall,
        revision: Option<&str>,
    ) -> Cleared {
        let guard = self.guard().await.read_again().await;
        let approved = guard.revision() == revision;
        self.admit(&guard, tool, call, approved).await
    }

    async fn admit(
        &self,
        guard: &Guard,
        tool: &Arc<dyn Tool>,
        call: &ToolCall,
        approved: bool,
    ) -> Cleared {
        match guard.admit(tool, call, approved).await {
            Verdict::Allow(permit) => Cleared::Run(permit),
            Verdict::Deny(fault) => Cleared::Refused(fault.message),
            Verdict::Invalid(problem) => Cleared::Wrong(problem),
            // Boxed, because few calls need anybody.
            Verdict::Ask(asked) => Box::pin(self.ask_people(tool, call, asked)).await,
        }
    }

    /// Asks until what was approved is what the policy of that moment wants.
    async fn ask_people(&self, tool: &Arc<dyn Tool>, call: &ToolCall, mut asked: Asked) -> Cleared {
        for _ in 0..QUESTIONS_PER_CALL_MAX {
            if asked.revision.is_some() && matches!(self.on_approval, OnApproval::Approve) {
                return Cleared::Refused(
                    "a policy wants a person to approve it, and nobody is asked here".to_owned(),
                );
            }
            let needed = (!asked.needed.is_plain()).then(|| Box::new(asked.needed));
            let asking =
                Asking { policy_revision: asked.revision, approvers: needed, ..Asking::default() };
            let (request, decision) = match self.ask_person(call, asking).await {
                Ok(answered) => answered,
                Err(request) => return Cleared::Suspend(request),
            };
            if let ApprovalDecision::Deny { reason } = decision {
                return Cleared::Refused(ToolError::Rejected(reason).to_string());
            }
            if !self.is_enough(&request, &decision) {
                return Cleared::Refused(too_few(&request));
            }
            let guard = self.guard().await.read_again().await;
            let approved = guard.revision() == request.policy_revision.as_deref();
            match guard.admit(tool, call, approved).await {
                Verdict::Allow(permit) => return Cleared::Run(permit),
                Verdict::Deny(fault) => return Cleared::Refused(fault.message),
                Verdict::Invalid(problem) => return Cleared::Wrong(problem),
                Verdict::Ask(again) => asked = again,
            }
        }
        Cleared::Refused("the policy changed each time that somebody had answered".to_owned())
    }

    /// True if a decision is the yes that a question wants: of enough different people who count.
    fn is_enough(&self, request: &ApprovalRequest, decision: &ApprovalDecision) -> bool {
        match (request.approvers.as_deref(), decision) {
            (_, ApprovalDecision::Deny { .. }) => false,
            (None, _) => true,
            (Some(_), ApprovalDecision::Approve) => false,
            (Some(needed), ApprovalDecision::ApprovedBy { by }) => self.is_met(needed, by),
        }
    }

    fn is_met(&self, needed: &Approvers, by: &[String]) -> bool {
        // Who keeps a journal knows who started the run, and takes a decision in only when everybody has said so.
        if !needed.not_requester || self.journal.is_some() {
            return needed.are_met_by(by, &[]);
        }
        let requester = &self.origin().principal;
        !requester.trim().is_empty() && needed.are_met_by(by, std::slice::from_ref(requester))
    }
}

/// Why a yes is not enough.
fn too_few(request: &ApprovalRequest) -> String {
    let needed = request.approvers.as_deref().cloned().unwrap_or_default();
    let of = match needed.of.as_slice() {
        [] => String::new(),
        names => format!(" of `{}`", names.join("`, `")),
    };
    let other = if needed.not_requester { ", and not that of whoever started the run" } else { "" };
    let required = needed.required;
    format!("it needs the approval of {required}{of}{other}, and the decision does not name them")
}
