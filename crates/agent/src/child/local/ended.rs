//! How a child ended, in the words of its parent.

use provost_core::{AgentUsed, LimitReached, RunSummary, StopReason};

use super::used::Used;
use crate::child::{ChildReport, ChildStatus};
use crate::error::Error;
use crate::outcome::{Outcome, Suspended};
use crate::pot::Sum;
use crate::team::MemberEnd;

/// How a child ended.
pub(super) struct Ended {
    pub(super) status: ChildStatus,
    pub(super) stop: Option<StopReason>,
    pub(super) text: String,
    /// Where the run above counts it once it is told of the end.
    pub(super) used: Vec<AgentUsed>,
    /// Boxed, because few have it and there may be many children.
    pub(super) more: Option<Box<More>>,
}

/// What there is to say of a child that did not just give its answer.
#[derive(Default)]
pub(super) struct More {
    pub(super) error: Option<String>,
    pub(super) limit: Option<LimitReached>,
    /// It waits for a person.
    pub(super) suspended: Option<Suspended>,
}

impl Ended {
    fn new(status: ChildStatus, text: String) -> Self {
        Self { status, stop: None, text, used: Vec::new(), more: None }
    }

    /// One that has not ended.
    pub(super) fn not_yet() -> Self {
        Self::new(ChildStatus::Running, String::new())
    }

    /// One that was over, and was noted.
    pub(super) fn of_report(report: ChildReport) -> Self {
        let ChildReport { status, text, error, limit, used, .. } = report;
        let mut ended = Self { used, ..Self::new(status, text) };
        if error.is_some() || limit.is_some() {
            ended.more = Some(Box::new(More { error, limit, suspended: None }));
        }
        ended
    }

    /// One that came to nothing.
    pub(super) fn failed(error: String) -> Self {
        let mut failed = Self::new(ChildStatus::Failed, String::new());
        failed.more().error = Some(error);
        failed
    }

    /// How it ended and what it used; `spent` knows that of a run that says nothing.
    pub(super) fn of(outcome: Result<Outcome, Error>, spent: impl FnOnce() -> Sum) -> (Self, Used) {
        match outcome {
            Ok(Outcome::Done(mut result)) => {
                let used = used_by(&mut result.summary);
                let mut done = Self::new(ChildStatus::Completed, result.output);
                done.stop = Some(result.summary.stop);
                if let Some(limit) = result.summary.limit {
                    done.more().limit = Some(limit);
                }
                (done, used)
            }
            Ok(Outcome::Cancelled(mut summary)) => {
                let used = used_by(&mut summary);
                (Self::new(ChildStatus::Cancelled, summary.text), used)
            }
            Ok(Outcome::Denied { reason }) => (Self::failed(reason), Used::Nothing),
            Ok(Outcome::Suspended(suspended)) => {
                let mut waits = Self::not_yet();
                waits.more().suspended = Some(suspended);
                (waits, Used::Nothing)
            }
            Err(error) => (Self::failed(error.to_string()), Used::Alone(spent())),
        }
    }

    pub(super) fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    pub(super) fn error(&self) -> Option<&String> {
        self.more.as_ref()?.error.as_ref()
    }

    pub(super) fn limit(&self) -> Option<&LimitReached> {
        self.more.as_ref()?.limit.as_ref()
    }

    /// True if it waits for a person.
    pub(super) fn is_suspended(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.suspended.is_some())
    }

    /// The same, of a member of a team.
    pub(super) fn of_member(&self) -> MemberEnd {
        match self.status {
            ChildStatus::Completed => MemberEnd::Completed(match self.limit() {
                Some(reached) => format!(
                    "[unfinished: it stopped at its limit of {} {}]\n{}",
                    reached.allowed,
                    reached.limit.as_str(),
                    self.text
                ),
                None => self.text.clone(),
            }),
            ChildStatus::Cancelled => MemberEnd::Stopped(self.error().cloned()),
            ChildStatus::Failed | ChildStatus::Running => {
                MemberEnd::Failed(self.error().cloned().unwrap_or_default())
            }
        }
    }
}

fn used_by(summary: &mut RunSummary) -> Used {
    if !summary.agents.is_empty() {
        return Used::Together(std::mem::take(&mut summary.agents));
    }
    let RunSummary { turns, usage, cost, unpriced_calls, .. } = *summary;
    Used::Alone(Sum { turns, usage, cost, unpriced_calls })
}
