//! One try of a run: the decision to try, and how it came out. Where it runs is the execution.

use crate::text::string_enum::words;

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
