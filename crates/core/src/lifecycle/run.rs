//! State machine of a run: its public status, its internal phase and its hold on the session.
//!
//! Invariant: a run that has ended never changes again.

use crate::lifecycle::InvalidTransition;
use crate::text::string_enum::string_enum;

string_enum! {
    /// Kind of program that a run executes.
    RunKind, "a run kind" {
        /// An agent.
        Agent = "agent",
    }
}

string_enum! {
    /// Public status of a run.
    RunStatus, "a run status" {
        /// Accepted and not started, or requeued to start again.
        Accepted = "accepted",
        /// Started: executing, waiting or requeued.
        Running = "running",
        /// Succeeded.
        Ok = "ok",
        /// Failed.
        Error = "error",
        /// Ended because its time limit was reached.
        Timeout = "timeout",
        /// Cancelled on request.
        Cancelled = "cancelled",
    }
}

impl RunStatus {
    /// Returns true if the run has ended.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Ok | Self::Error | Self::Timeout | Self::Cancelled)
    }
}

string_enum! {
    /// Internal phase of a run.
    RunPhase, "a run phase" {
        /// Waits for a worker.
        Queued = "queued",
        /// Leased by a worker.
        Leased = "leased",
        /// Waits for something other than a worker. A parked run occupies only a database row.
        Parked = "parked",
        /// Ended.
        Done = "done",
    }
}

string_enum! {
    /// Reason why a run is parked.
    WaitReason, "a reason to be parked" {
        /// Waits for an approval.
        Approval = "approval",
        /// Waits for a person to answer a question of the agent.
        Question = "question",
        /// Waits for a child run.
        Child = "child",
        /// Waits for a higher budget.
        Budget = "budget",
        /// Waits for an operator, because its attempts are used up or it was paused.
        Operator = "operator",
    }
}

string_enum! {
    /// The dependencies that must have ended before a join is complete.
    JoinMode, "a join mode" {
        /// All of them.
        All = "all",
        /// Any of them.
        Any = "any",
    }
}

impl WaitReason {
    /// Returns true if the run keeps its session while it waits.
    ///
    /// In the middle of a turn it must: otherwise another run could write between a tool call and its result. Between
    /// turns, or if the wait can be unbounded, it must not: the session would be blocked.
    pub const fn holds_session(self) -> bool {
        match self {
            Self::Approval | Self::Child | Self::Budget => true,
            Self::Question | Self::Operator => false,
        }
    }

    /// Returns true if a run can be parked for this reason before a worker has claimed it.
    const fn without_worker(self) -> bool {
        matches!(self, Self::Approval | Self::Operator)
    }
}

/// Transition of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunTransition {
    /// A worker claims the run under a new epoch.
    Claimed,
    /// The run is parked.
    Parked(WaitReason),
    /// The awaited condition is met; the run is queued again.
    Woken,
    /// The worker releases the run or is lost; the run continues later.
    Requeued,
    /// A newer message replaces the current activity; the run starts again with that message.
    Interrupted,
    /// The run succeeds.
    Succeeded,
    /// The run fails.
    Failed,
    /// The run reaches its time limit.
    TimedOut,
    /// The run is cancelled on request.
    Cancelled,
}

impl RunTransition {
    /// Returns the stable name.
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

    /// Returns the transition that ends a run with `status`, or `None` if `status` is not terminal.
    pub const fn for_terminal_status(status: RunStatus) -> Option<Self> {
        match status {
            RunStatus::Accepted | RunStatus::Running => None,
            RunStatus::Ok => Some(Self::Succeeded),
            RunStatus::Error => Some(Self::Failed),
            RunStatus::Timeout => Some(Self::TimedOut),
            RunStatus::Cancelled => Some(Self::Cancelled),
        }
    }
}

/// State of a run. Only valid combinations can be constructed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunState {
    status: RunStatus,
    phase: RunPhase,
    parked_for: Option<WaitReason>,
    holds_session: bool,
}

impl RunState {
    /// State of a newly accepted run.
    pub const ACCEPTED: Self = Self {
        status: RunStatus::Accepted,
        phase: RunPhase::Queued,
        parked_for: None,
        holds_session: false,
    };

    /// Restores the state from a row. Returns `None` for a combination that no run can have.
    pub fn from_row(
        status: RunStatus,
        phase: RunPhase,
        parked_for: Option<WaitReason>,
        holds_session: bool,
    ) -> Option<Self> {
        let sound = match phase {
            RunPhase::Queued => !status.is_terminal(),
            RunPhase::Leased => status == RunStatus::Running && holds_session,
            RunPhase::Parked => parked_for.is_some_and(|why| {
                let begun = status == RunStatus::Running
                    || (status == RunStatus::Accepted && why.without_worker());
                // A run that was parked while it was queued may not have held the session.
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

    /// Returns the public status.
    pub const fn status(self) -> RunStatus {
        self.status
    }

    /// Returns the internal phase.
    pub const fn phase(self) -> RunPhase {
        self.phase
    }

    /// Returns the reason for the wait if the run is parked.
    pub const fn wait_reason(self) -> Option<WaitReason> {
        self.parked_for
    }

    /// Returns true if the run is the only writer of its session.
    ///
    /// It is from its first claim until it ends or parks for a reason that releases the session. A run that was
    /// requeued in the middle of a turn keeps the session.
    pub const fn holds_session(self) -> bool {
        self.holds_session
    }

    /// Returns true if the run has ended.
    pub const fn is_terminal(self) -> bool {
        self.status.is_terminal()
    }

    /// Returns the state after a transition. Fails if the state does not permit it.
    pub const fn apply(self, event: RunTransition) -> Result<Self, InvalidTransition> {
        use RunPhase as P;
        use RunTransition as E;
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
                return Err(InvalidTransition {
                    machine: "run",
                    from: match self.phase {
                        P::Done => self.status.as_str(),
                        phase => phase.as_str(),
                    },
                    transition: event.as_str(),
                    terminal: self.is_terminal(),
                });
            }
        })
    }

    /// Returns this state parked for a reason. The session is released if the reason requires it.
    const fn parked(self, why: WaitReason) -> Self {
        Self {
            status: self.status,
            phase: RunPhase::Parked,
            parked_for: Some(why),
            holds_session: self.holds_session && why.holds_session(),
        }
    }

    /// Returns a terminal state.
    const fn ended(status: RunStatus) -> Self {
        Self { status, phase: RunPhase::Done, parked_for: None, holds_session: false }
    }
}

#[cfg(test)]
mod tests;
