//! Payloads of events about the team of a run.

use serde::{Deserialize, Serialize};

/// A member joined the team, or its work ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberChanged {
    /// Name of the team.
    pub team: String,
    /// Name of the member.
    pub member: String,
    /// Task of the member.
    pub task: String,
    /// Result of the member.
    pub result: Option<String>,
    /// Error of the member, or the reason why it was stopped.
    pub error: Option<String>,
}
