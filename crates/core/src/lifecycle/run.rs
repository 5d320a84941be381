//! One life of a task in a session: its public status, its inner phase, and who holds the session meanwhile.
//!
//! Invariant: a run that has ended never changes again.

use crate::lifecycle::Illegal;
use crate::text::string_enum::words;

words! {
    /// What a run executes.
    RunKind, "a run kind" {
        /// An agent.
        Agent = "agent",
    }
}

words! {
    /// What the world sees of a run.
    RunStatus, "a run status" {
        /// Taken in and not begun, or sent back to begin again.
        Accepted = "accepted",
        /// Begun: at work, waiting, or waiting to go on.
        Running = "running",
        /// Ended well.
        Ok = "ok",
        /// Ended with an error.
        Error = "error",
        /// Ended because its time was over.
        Timeout = "timeout",
        /// Ended because somebody asked for it.
        Cancelled = "cancelled",
    }
}

impl RunStatus {
    /// True if the run has ended.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Ok | Self::Error | Self::Timeout | Self::Cancelled)
    }
}

words! {
    /// Where a run is inside the engine.
    RunPhase, "a run phase" {
        /// Waits for a worker.
        Queued = "queued",
        /// A worker has it.
        Leased = "leased",
        /// Waits for something else, and costs a row.
        Parked = "parked",
        /// Ended.
        Done = "done",
    }
}

words! {
    /// What a parked run waits for.
    ParkedFor, "a reason to be parked" {
        /// A person's yes or no.
        Approval = "approval",
        /// A person's answer.
        Question = "question",
        /// A child run.
        Child = "child",
        /// Money.
        Budget = "budget",
        /// An operator: its tries are used up, or somebody paused it.
        Operator = "operator",
    }
}

impl ParkedFor {
    /// Does a run keep its session while it waits for this?
    ///
    /// In the middle of a turn it must: another writer would come between a call and its result. Between turns, and where
    /// the wait has no end of its own, it must not: the conversation would stand still.
    pub const fn holds_session(self) -> bool {
        match self {
            Self::Approval | Self::Child | Self::Budget => true,
            Self::Question | Self::Operator => false,
        }
    }

    /// Can a run wait for this before a worker ever had it?
    const fn without_worker(self) -> bool {
        matches!(self, Self::Approval | Self::Operator)
    }
}

/// What happens to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunEvent {
    /// A worker takes it, under a new epoch.
    Claimed,
    /// It has to wait for something that is not a worker.
    Parked(ParkedFor),
    /// What it waited for is there.
    Woken,
    /// The worker gives it back or is lost; it goes on later.
    Requeued,
    /// A newer message takes the place of what it does; it begins again with that.
    Interrupted,
    /// It ended well.
    Succeeded,
    /// It failed.
    Failed,
    /// Its time is over.
    TimedOut,
    /// Somebody asked for its end.
    Cancelled,
}

impl RunEvent {
    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Parked(_) => "parked",
            Self::Woken => "woken",
            Self::Requeued => "requeued",
            Self::Interrupted => "interrupted",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
        }
    }

    /// The event that ends a run with a status; `None` for a status that is no end.
    pub const fn ending(status: RunStatus) -> Option<Self> {
        match status {
            RunStatus::Accepted | RunStatus::Running => None,
            RunStatus::Ok => Some(Self::Succeeded),
            RunStatus::Error => Some(Self::Failed),
            RunStatus::Timeout => Some(Self::TimedOut),
            RunStatus::Cancelled => Some(Self::Cancelled),
        }
    }
}

/// Where a run stands. Only combinations that make sense can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunState {
    status: RunStatus,
    phase: RunPhase,
    parked_for: Option<ParkedFor>,
    holds_session: bool,
}

impl RunState {
    /// A run that was just taken in.
    pub const ACCEPTED: Self = Self {
        status: RunStatus::Accepted,
        phase: RunPhase::Queued,
        parked_for: None,
        holds_session: false,
    };

    /// The state that a row holds, or `None` if no run can be in it.
    pub fn from_row(
        status: RunStatus,
        phase: RunPhase,
        parked_for: Option<ParkedFor>,
        holds_session: bool,
    ) -> Option<Self> {
        let sound = match phase {
            RunPhase::Queued => !status.is_terminal(),
            RunPhase::Leased => status == RunStatus::Running && holds_session,
            RunPhase::Parked => parked_for.is_some_and(|why| {
                let begun = status == RunStatus::Running
                    || (status == RunStatus::Accepted && why.without_worker());
                // What was parked straight from the queue may not have had it to keep.
                let frees = !why.holds_session() || why.without_worker();
                begun && if holds_session { why.holds_session() } else { frees }
            }),
            RunPhase::Done => status.is_terminal() && !holds_session,
        };
        let parked = phase == RunPhase::Parked;
        (sound && parked == parked_for.is_some()).then_some(Self {
            status,
            phase,
            parked_for,
            holds_session,
        })
    }

    /// What the world sees.
    pub const fn status(self) -> RunStatus {
        self.status
    }

    /// Where it is.
    pub const fn phase(self) -> RunPhase {
        self.phase
    }

    /// What it waits for, if it is parked.
    pub const fn parked_for(self) -> Option<ParkedFor> {
        self.parked_for
    }

    /// Is it the one writer of its session?
    ///
    /// From its first claim on, until it ends or parks for something that lets others go first. It stays so while a run that
    /// was in the middle of a turn waits for its next worker.
    pub const fn holds_session(self) -> bool {
        self.holds_session
    }

    /// True if it has ended.
    pub const fn is_terminal(self) -> bool {
        self.status.is_terminal()
    }

    /// The state after an event.
    pub const fn next(self, event: RunEvent) -> Result<Self, Illegal> {
        use RunEvent as E;
        use RunPhase as P;
        Ok(match (self.phase, event) {
            (P::Queued, E::Claimed) => Self {
                status: RunStatus::Running,
                phase: P::Leased,
                parked_for: None,
                holds_session: true,
            },
            (P::Leased, E::Parked(why)) => self.parked(why),
            (P::Queued, E::Parked(why)) if why.without_worker() => self.parked(why),
            (P::Parked, E::Woken) | (P::Leased, E::Requeued) => {
                Self { phase: P::Queued, parked_for: None, ..self }
            }
            (P::Queued | P::Leased | P::Parked, E::Interrupted) => {
                Self { status: RunStatus::Accepted, phase: P::Queued, parked_for: None, ..self }
            }
            (P::Leased, E::Succeeded) => Self::ended(RunStatus::Ok),
            (P::Queued | P::Leased | P::Parked, E::Failed) => Self::ended(RunStatus::Error),
            (P::Queued | P::Leased | P::Parked, E::TimedOut) => Self::ended(RunStatus::Timeout),
            (P::Queued | P::Leased | P::Parked, E::Cancelled) => Self::ended(RunStatus::Cancelled),
            _ => {
                return Err(Illegal {
                    machine: "run",
                    from: match self.phase {
                        P::Done => self.status.as_str(),
                        phase => phase.as_str(),
                    },
                    event: event.as_str(),
                    terminal: self.is_terminal(),
                });
            }
        })
    }

    const fn parked(self, why: ParkedFor) -> Self {
        Self {
            status: self.status,
            phase: RunPhase::Parked,
            parked_for: Some(why),
            holds_session: self.holds_session && why.holds_session(),
        }
    }

    const fn ended(status: RunStatus) -> Self {
        Self { status, phase: RunPhase::Done, parked_for: None, holds_session: false }
    }
}

#[cfg(test)]
mod tests;
