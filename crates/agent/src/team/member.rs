//! The members of a team.

use provost_core::{EventKind, RunId, TeamMember, Timestamp};
use serde::{Deserialize, Serialize};

/// Status of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberStatus {
    /// The member's run is active.
    Active,
    /// The member has responded.
    Completed,
    /// The member's run failed.
    Failed,
    /// The member was stopped or timed out.
    Stopped,
}

/// Outcome of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberOutcome {
    /// The response.
    Completed(String),
    /// The error.
    Failed(String),
    /// The member was stopped. `None` means that the lead stopped it; otherwise the reason.
    Stopped(Option<String>),
}

/// A member of a team.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Unique id, such as `teammate-1`. Unlike a name, it is never reused.
    pub id: String,
    /// Name of the member in the team.
    pub name: String,
    /// Status of the member.
    pub status: MemberStatus,
    /// Task of the member.
    pub task: String,
    /// Time of joining.
    pub joined_at: Timestamp,
    /// Run of the member. `None` until it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// End of the member. `None` while it is active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Response of the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Error of the member, or the reason why it was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Member {
    /// Returns true if the member is active.
    pub fn is_active(&self) -> bool {
        self.status == MemberStatus::Active
    }

    /// Sets the end, the status and the result of a member.
    pub(super) fn end(&mut self, end: MemberOutcome, now: Timestamp) {
        self.ended_at = Some(now);
        match end {
            MemberOutcome::Completed(text) => {
                self.status = MemberStatus::Completed;
                self.result = Some(text);
            }
            MemberOutcome::Failed(error) => {
                self.status = MemberStatus::Failed;
                self.error = Some(error);
            }
            MemberOutcome::Stopped(reason) => {
                self.status = MemberStatus::Stopped;
                self.error = reason;
            }
        }
    }

    /// Returns the event that reports the member's status in the lead's run.
    pub fn event(&self, team: &str) -> EventKind {
        let told = Box::new(TeamMember {
            team: team.to_owned(),
            member: self.name.clone(),
            task: self.task.clone(),
            result: self.result.clone(),
            error: self.error.clone(),
        });
        match self.status {
            MemberStatus::Active => EventKind::TeammateSpawned(told),
            MemberStatus::Completed => EventKind::TeammateComplete(told),
            MemberStatus::Failed => EventKind::TeammateError(told),
            MemberStatus::Stopped => EventKind::TeammateStopped(told),
        }
    }
}
