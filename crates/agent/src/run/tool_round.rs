//! The tool calls of one turn, until each has its result.

use provost_core::{
    ApprovalDecision, ApprovalId, ApprovalRequest, Timestamp, ToolCall, ToolResult,
};

use super::{ApprovalAnswer, CallState, Phase, Run, TransitionError};

impl Run {
    /// Stores a call as hooks changed it.
    pub(super) fn set_prepared_call(
        &mut self,
        call_id: &str,
        effective: ToolCall,
    ) -> Result<(), TransitionError> {
        self.call_mut(call_id)?.prepared_call = Some(effective);
        Ok(())
    }

    /// Sets the result of a call. The round ends when all calls have one. Returns an error if the call has no open
    /// result.
    pub(super) fn set_result(
        &mut self,
        result: ToolResult,
        now: Timestamp,
    ) -> Result<(), TransitionError> {
        let call = self.call_mut(&result.call_id)?;
        call.result = Some(result);
        self.finish_tool_round(now);
        Ok(())
    }

    /// Counts a call with invalid arguments.
    pub(super) fn count_argument_fault(&mut self, tool: &str) {
        *self.argument_faults.entry(tool.to_owned()).or_default() += 1;
    }

    /// Marks a call as waiting for a decision.
    pub(super) fn set_pending_approval(
        &mut self,
        request: ApprovalRequest,
    ) -> Result<(), TransitionError> {
        let call = self.call_mut(&request.call.id)?;
        call.pending_approval = Some(request);
        Ok(())
    }

    /// Applies a decision to a pending approval.
    pub(super) fn apply_decision(
        &mut self,
        id: ApprovalId,
        decision: ApprovalDecision,
    ) -> Result<(), TransitionError> {
        let Phase::Tools { calls } = &mut self.phase else {
            return Err(TransitionError::UnknownApproval(id));
        };
        let asked = |request: &mut ApprovalRequest| request.id == id;
        let answered = calls.iter_mut().filter(|call| call.awaits_approval()).find_map(|call| {
            let request = call.pending_approval.take_if(asked)?;
            Some((call, request))
        });
        let (call, request) = answered.ok_or(TransitionError::UnknownApproval(id))?;
        call.answers.push(ApprovalAnswer { request, decision });
        Ok(())
    }

    /// Returns the pending approvals.
    pub fn pending_approvals(&self) -> Vec<&ApprovalRequest> {
        match &self.phase {
            Phase::Tools { calls } => calls
                .iter()
                .filter(|call| call.awaits_approval())
                .filter_map(|call| call.pending_approval.as_ref())
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Returns a call of this round that has no result. Returns an error if there is none.
    fn call_mut(&mut self, call_id: &str) -> Result<&mut CallState, TransitionError> {
        let Phase::Tools { calls } = &mut self.phase else {
            return Err(TransitionError::UnknownCall(call_id.to_owned()));
        };
        calls
            .iter_mut()
            .find(|state| state.call.id == call_id && state.result.is_none())
            .ok_or_else(|| TransitionError::UnknownCall(call_id.to_owned()))
    }

    /// Ends the round once every call has its result: adds one tool message, in call order.
    pub(super) fn finish_tool_round(&mut self, now: Timestamp) {
        let Phase::Tools { calls } = &mut self.phase else {
            return;
        };
        if calls.iter().any(|call| call.result.is_none()) {
            return;
        }
        let results: Vec<ToolResult> =
            calls.iter_mut().filter_map(|call| call.result.take()).collect();
        self.tool_rounds += 1;
        self.tool_calls += u32::try_from(results.len()).unwrap_or(u32::MAX);
        let calls: Vec<ToolCall> = calls.drain(..).map(|state| state.call).collect();
        self.phase = match self.find_transfer(&calls, &results) {
            Some((to, reason)) => Phase::Handoff { to, reason },
            None => Phase::Model { without_tools: false },
        };
        self.push_results(results, now);
        for message in std::mem::take(&mut self.queued_messages) {
            self.push(message);
        }
    }
}
