//! Status of a run attempt. The environment in which an attempt runs is identified by its execution id.

use crate::text::string_enum::string_enum;

string_enum! {
    /// Status of a run attempt.
    AttemptStatus, "an attempt status" {
        /// Created but not started.
        Pending = "pending",
        /// Waits for a person to approve the start. No environment exists yet.
        Blocked = "blocked",
        /// Executing.
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

string_enum! {
    /// Reason why an attempt was created.
    AttemptReason as "Strategy", "a strategy" {
        /// First attempt.
        Primary = "primary",
        /// Retry after a failure.
        Retry = "retry",
        /// Retry with another model or credential.
        Failover = "failover",
        /// Continues the same journal after a lost lease or a wait. Recorded model calls are not repeated.
        Resume = "resume",
    }
}
