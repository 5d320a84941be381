//! How a child ended, in the words of its parent.

use provost_core::{AgentUsed, LimitReached, RunSummary, StopReason};

use crate::child::ChildStatus;
use crate::error::Error;
use crate::outcome::{Outcome, Suspended};
use crate::team::MemberEnd;

/// How a child ended.
pub(super) struct Ended {
    pub(super) status: ChildStatus,
    pub(super) text: String,
    pub(super) error: Option<String>,
    pub(super) limit: Option<LimitReached>,
    pub(super) used: Vec<AgentUsed>,
    pub(super) suspended: Option<Suspended>,
    pub(super) stop: Option<StopReason>,
}

impl Ended {
    fn new(status: ChildStatus, error: Option<String>, used: Vec<AgentUsed>) -> Self {
        let (text, limit, suspended, stop) = (String::new(), None, None, None);
        Self { status, text, error, limit, used, suspended, stop }
    }

    /// One that came to nothing.
    pub(super) fn failed(error: String) -> Self {
        Self::new(ChildStatus::Failed, Some(error), Vec::new())
    }

    pub(super) fn of(
        outcome: Result<Outcome, Error>,
        spent: impl FnOnce() -> Vec<AgentUsed>,
        path: &str,
    ) -> Self {
        let ended = Self::new;
        match outcome {
            Ok(Outcome::Done(result)) => {
                let used = used_by(&result.summary, path);
                let limit = result.summary.limit.clone();
                let done = ended(ChildStatus::Completed, None, used);
                let stop = Some(result.summary.stop);
                Self { text: result.output, limit, stop, ..done }
            }
            Ok(Outcome::Cancelled(summary)) => {
                let used = used_by(&summary, path);
                Self { text: summary.text, ..ended(ChildStatus::Cancelled, None, used) }
            }
            Ok(Outcome::Denied { reason }) => ended(ChildStatus::Failed, Some(reason), Vec::new()),
            Ok(Outcome::Suspended(suspended)) => {
                let waits = ended(ChildStatus::Running, None, Vec::new());
                Self { suspended: Some(suspended), ..waits }
            }
            Err(error) => ended(ChildStatus::Failed, Some(error.to_string()), spent()),
        }
    }
}

impl Ended {
    /// The same, of a member of a team.
    pub(super) fn of_member(&self) -> MemberEnd {
        match self.status {
            ChildStatus::Completed => MemberEnd::Completed(match &self.limit {
                Some(reached) => format!(
                    "[unfinished: it stopped at its limit of {} {}]\n{}",
                    reached.allowed,
                    reached.limit.as_str(),
                    self.text
                ),
                None => self.text.clone(),
            }),
            ChildStatus::Cancelled => MemberEnd::Stopped(self.error.clone()),
            ChildStatus::Failed | ChildStatus::Running => {
                MemberEnd::Failed(self.error.clone().unwrap_or_default())
            }
        }
    }
}

fn used_by(summary: &RunSummary, path: &str) -> Vec<AgentUsed> {
    if !summary.agents.is_empty() {
        return summary.agents.clone();
    }
    vec![AgentUsed {
        agent: path.to_owned(),
        turns: summary.turns,
        usage: summary.usage,
        cost: summary.cost,
        unpriced_calls: summary.unpriced_calls,
    }]
}
