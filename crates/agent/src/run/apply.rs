//! The only way to change a run.

use provost_session::SessionChange;

use super::{Fed, Feed, FeedError, Phase, Run};
use crate::context::Fitted;

impl Run {
    /// Applies one entry. It is refused, and the run stays as it is, if it does not fit.
    pub fn apply(&mut self, feed: Feed) -> Result<Fed, FeedError> {
        match feed {
            Feed::ModelAnswered { response, cost, at } => {
                return self.take_answer(*response, cost, at).map(Fed::Answer);
            }
            Feed::OutputChecked { problem, at } => {
                return self.output_checked(problem.map_or(Ok(()), Err), at).map(Fed::SentBack);
            }
            Feed::ToolFinished { result, fault, at } => {
                if fault {
                    self.argument_fault(&result.name);
                }
                self.tool_finished(*result, at)?;
            }
            Feed::ApprovalNeeded { effective, request } => {
                let call_id = effective.id.clone();
                self.tool_prepared(&call_id, *effective)?;
                self.tool_needs_approval(*request)?;
            }
            Feed::ApprovalDecided { id, decision } => self.decide(id, decision)?,
            Feed::UserSaid { message } => self.user_said(message),
            Feed::ContextChanged { messages } => {
                let messages = self.assemble(messages)?;
                self.context_changed(messages);
            }
            Feed::ContextFitted { messages, session, usage, cost, unmetered_calls } => {
                let messages = self.assemble(messages)?;
                self.context_fitted(Fitted { messages, session, usage, cost, unmetered_calls });
            }
            Feed::LimitFound { at } => {
                self.next_step(at);
            }
            Feed::LimitDecided { decision, at } => self.limit_decided(decision, at)?,
            Feed::Saved => {
                self.unsaved = SessionChange::default();
            }
            Feed::HandedOff(handed) => self.handed_off(*handed)?,
            Feed::ChildUsed { child, used } => self.child_used(child, used),
            Feed::ChildrenUsed { children } => {
                for (child, used) in children {
                    self.child_used(child, used);
                }
            }
            Feed::Noted { state, .. } => self.state = state,
            Feed::Suspended { state, at } => self.suspended(state, at),
            Feed::Resumed { at } => self.resumed(at),
            Feed::Stopped { partial, cost, reason, limit, at } => {
                self.stop(partial.map(|partial| *partial), cost, reason, at);
                if let (Some(limit), Phase::Done(ending)) = (limit, &mut self.phase) {
                    ending.limit = Some(*limit);
                }
            }
        }
        Ok(Fed::Taken)
    }
}
