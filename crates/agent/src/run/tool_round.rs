//! The calls of one turn, until each has its result.

use provost_core::{
    ApprovalDecision, ApprovalId, ApprovalRequest, Timestamp, ToolCall, ToolResult,
};

use super::{Answer, CallState, FeedError, Phase, Run};

impl Run {
    /// Hooks have seen a call and left it like this.
    pub(super) fn tool_prepared(
        &mut self,
        call_id: &str,
        effective: ToolCall,
    ) -> Result<(), FeedError> {
        self.call_mut(call_id)?.effective = Some(effective);
        Ok(())
    }

    /// A call has its result. The turn goes on when all have one.
    pub(super) fn tool_finished(
        &mut self,
        result: ToolResult,
        now: Timestamp,
    ) -> Result<(), FeedError> {
        let call = self.call_mut(&result.call_id)?;
        call.result = Some(result);
        self.close_round(now);
        Ok(())
    }

    /// The model sent arguments the tool refuses.
    pub(super) fn argument_fault(&mut self, tool: &str) {
        *self.argument_faults.entry(tool.to_owned()).or_default() += 1;
    }

    /// A call needs a person's decision before it can run.
    pub(super) fn tool_needs_approval(
        &mut self,
        request: ApprovalRequest,
    ) -> Result<(), FeedError> {
        let call = self.call_mut(&request.call.id)?;
        call.open = Some(request);
        Ok(())
    }

    /// A person decided.
    pub(super) fn decide(
        &mut self,
        id: ApprovalId,
        decision: ApprovalDecision,
    ) -> Result<(), FeedError> {
        let Phase::Tools { calls } = &mut self.phase else {
            return Err(FeedError::UnknownApproval(id));
        };
        let asked = |request: &mut ApprovalRequest| request.id == id;
        let answered = calls.iter_mut().filter(|call| call.waits()).find_map(|call| {
            let request = call.open.take_if(asked)?;
            Some((call, request))
        });
        let (call, request) = answered.ok_or(FeedError::UnknownApproval(id))?;
        call.answers.push(Answer { request, decision });
        Ok(())
    }

    /// The questions that wait for a person.
    pub fn open_approvals(&self) -> Vec<&ApprovalRequest> {
        match &self.phase {
            Phase::Tools { calls } => calls
                .iter()
                .filter(|call| call.waits())
                .filter_map(|call| call.open.as_ref())
                .collect(),
            _ => Vec::new(),
        }
    }

    fn call_mut(&mut self, call_id: &str) -> Result<&mut CallState, FeedError> {
        let Phase::Tools { calls } = &mut self.phase else {
            return Err(FeedError::UnknownCall(call_id.to_owned()));
        };
        calls
            .iter_mut()
            .find(|state| state.call.id == call_id && state.result.is_none())
            .ok_or_else(|| FeedError::UnknownCall(call_id.to_owned()))
    }

    /// When every call has its result: one tool message, in call order.
    pub(super) fn close_round(&mut self, now: Timestamp) {
        let Phase::Tools { calls } = &mut self.phase else {
            return;
        };
        if calls.iter().any(|call| call.result.is_none()) {
            return;
        }
        let results: Vec<ToolResult> =
            calls.iter_mut().filter_map(|call| call.result.take()).collect();
        self.rounds += 1;
        self.tool_calls += u32::try_from(results.len()).unwrap_or(u32::MAX);
        let calls: Vec<ToolCall> = calls.drain(..).map(|state| state.call).collect();
        self.phase = match self.transfer_among(&calls, &results) {
            Some((to, reason)) => Phase::HandOff { to, reason },
            None => Phase::Model { without_tools: false },
        };
        self.push_results(results, now);
        for message in std::mem::take(&mut self.after_results) {
            self.push(message);
        }
    }
}
