//! The only way to change a run.

use provost_core::{ApprovalRequest, LimitReached, ToolCall};
use provost_session::SessionChange;

use super::{ApplyResult, JournalEntry, Phase, Run, TransitionError};
use crate::context::CompactionResult;

impl Run {
    /// Applies one entry. Returns an error if the entry does not fit the phase of the run.
    pub fn apply(&mut self, feed: JournalEntry) -> Result<ApplyResult, TransitionError> {
        match feed {
            JournalEntry::ModelResponded { response, cost, at } => {
                return self.apply_response(*response, cost, at).map(ApplyResult::Response);
            }
            JournalEntry::OutputChecked { problem, at } => {
                return self
                    .apply_output_check(problem.map_or(Ok(()), Err), at)
                    .map(ApplyResult::OutputRejected);
            }
            JournalEntry::ToolFinished { result, invalid_arguments: fault, at } => {
                if fault {
                    self.count_argument_fault(&result.name);
                }
                self.set_result(*result, at)?;
            }
            JournalEntry::ApprovalNeeded { prepared_call, request } => {
                self.apply_approval_request(*prepared_call, *request)?;
            }
            JournalEntry::ApprovalDecided { id, decision } => self.apply_decision(id, decision)?,
            JournalEntry::UserMessage { message } => self.add_user_message(message),
            JournalEntry::ContextChanged { messages } => {
                let messages = self.apply_edits(messages)?;
                self.replace_context(messages);
            }
            JournalEntry::ContextCompacted {
                messages,
                session,
                usage,
                cost,
                calls_without_usage,
            } => {
                let messages = self.apply_edits(messages)?;
                let result =
                    CompactionResult { messages, session, usage, cost, calls_without_usage };
                self.apply_compaction(result);
            }
            JournalEntry::LimitReached { at } => {
                self.next_step(at);
            }
            JournalEntry::LimitDecided { decision, at } => {
                self.apply_limit_decision(decision, at)?
            }
            JournalEntry::Saved => {
                self.unsaved = SessionChange::default();
            }
            JournalEntry::HandoffApplied(handed) => self.apply_handoff(*handed)?,
            JournalEntry::ChildUsage { child, used } => self.add_child_usage(child, used),
            JournalEntry::ChildrenUsage { children } => {
                for (child, used) in children {
                    self.add_child_usage(child, used);
                }
            }
            JournalEntry::StateChanged { state, .. } => self.state = state,
            JournalEntry::Suspended { state, at } => self.mark_suspended(state, at),
            JournalEntry::Resumed { at } => self.mark_resumed(at),
            JournalEntry::Stopped { partial, cost, reason, limit, at } => {
                self.stop(partial.map(|partial| *partial), cost, reason, at);
                self.record_limit(limit.map(|limit| *limit));
            }
        }
        Ok(ApplyResult::Applied)
    }

    fn apply_approval_request(
        &mut self,
        call: ToolCall,
        request: ApprovalRequest,
    ) -> Result<(), TransitionError> {
        let id = call.id.clone();
        self.set_prepared_call(&id, call)?;
        self.set_pending_approval(request)
    }

    /// Records the limit that ended the run.
    fn record_limit(&mut self, limit: Option<LimitReached>) {
        if let (Some(limit), Phase::Done(ending)) = (limit, &mut self.phase) {
            ending.limit = Some(limit);
        }
    }
}
