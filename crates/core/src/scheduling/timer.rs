//! Timers of the engine.

use crate::text::string_enum::string_enum;

string_enum! {
    /// Action of a timer.
    TimerKind, "a timer kind" {
        /// Makes a delayed run claimable.
        RunDue = "run_due",
        /// Ends a run that no worker has claimed in time.
        QueueDeadline = "run_queue_deadline",
        /// Ends a wait for child runs.
        ChildWait = "child_wait",
        /// Ends an approval request without a decision.
        ApprovalExpiry = "approval_expiry",
    }
}
