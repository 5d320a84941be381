//! One try of a run: the decision to try, and how it came out. Where it runs is the execution.

use crate::work::Illegal;
use crate::work::word::words;

words! {
    /// Where an attempt stands.
    AttemptStatus, "an attempt status" {
        /// Made and not started.
        Pending = "pending",
        /// Waits for a person to approve the start; nothing of it exists yet.
        Blocked = "blocked",
        /// At work.
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

words! {
    /// Why an attempt was made.
    Strategy, "a strategy" {
        /// The first one.
        Primary = "primary",
        /// The same again after a failure.
        Retry = "retry",
        /// With another model or credential.
        Failover = "failover",
        /// Goes on with the same journal after a lost lease or a pause; nothing is asked again.
        Resume = "resume",
    }
}

words! {
    /// What happens to an attempt.
    AttemptEvent, "an attempt event" {
        /// A person must approve the start.
        Blocked = "blocked",
        /// The start was approved.
        Unblocked = "unblocked",
        /// It begins.
        Started = "started",
        /// It ended well.
        Succeeded = "succeeded",
        /// It failed.
        Failed = "failed",
        /// Its time was over.
        TimedOut = "timed_out",
        /// Somebody asked for its end, or the start was denied.
        Cancelled = "cancelled",
    }
}

impl AttemptStatus {
    /// The status after an event.
    pub const fn next(self, event: AttemptEvent) -> Result<Self, Illegal> {
        use AttemptEvent as E;
        Ok(match (self, event) {
            (Self::Pending, E::Blocked) => Self::Blocked,
            (Self::Blocked, E::Unblocked) => Self::Pending,
            (Self::Pending, E::Started) => Self::Running,
            (Self::Running, E::Succeeded) => Self::Ok,
            (Self::Pending | Self::Blocked | Self::Running, E::Failed) => Self::Error,
            (Self::Pending | Self::Blocked | Self::Running, E::TimedOut) => Self::Timeout,
            (Self::Pending | Self::Blocked | Self::Running, E::Cancelled) => Self::Cancelled,
            _ => {
                return Err(Illegal {
                    machine: "attempt",
                    from: self.as_str(),
                    event: event.as_str(),
                    terminal: self.is_terminal(),
                });
            }
        })
    }

    /// True if it has ended.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Ok | Self::Error | Self::Timeout | Self::Cancelled)
    }

    /// True if it has a place to run in, or is about to. A run has at most one such attempt.
    pub const fn is_in_flight(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }

    /// True if another attempt may follow; whether it does is the retry policy's word.
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::Error | Self::Timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::tests::check_machine;

    #[test]
    fn the_machine_is_total_and_ends_are_ends() {
        check_machine(AttemptStatus::ALL, AttemptEvent::ALL, AttemptStatus::next, |status| {
            status.is_terminal()
        });
    }

    #[test]
    fn the_way_of_an_attempt() {
        use AttemptEvent as E;
        use AttemptStatus as S;
        for (from, event, to) in [
            (S::Pending, E::Started, S::Running),
            (S::Pending, E::Blocked, S::Blocked),
            (S::Blocked, E::Unblocked, S::Pending),
            (S::Blocked, E::Cancelled, S::Cancelled),
            (S::Running, E::Succeeded, S::Ok),
            (S::Running, E::Failed, S::Error),
            (S::Running, E::TimedOut, S::Timeout),
            (S::Running, E::Cancelled, S::Cancelled),
            (S::Pending, E::Failed, S::Error),
        ] {
            assert_eq!(from.next(event), Ok(to));
        }
        assert!(S::Blocked.next(E::Started).is_err(), "a blocked start needs its approval first");
    }

    #[test]
    fn in_flight_and_retryable_are_as_the_spec_has_them() {
        use AttemptStatus as S;
        let flying: Vec<_> = S::ALL.iter().filter(|status| status.is_in_flight()).collect();
        assert_eq!(flying, [&S::Pending, &S::Running]);
        let again: Vec<_> = S::ALL.iter().filter(|status| status.is_retryable()).collect();
        assert_eq!(again, [&S::Error, &S::Timeout]);
    }
}
