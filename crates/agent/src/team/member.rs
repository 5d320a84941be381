//! A member of a team, as the book has it.

use provost_core::{EventKind, RunId, TeamMember, Timestamp};
use serde::{Deserialize, Serialize};

/// Where a member stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberStatus {
    /// It works.
    Active,
    /// It has given its answer.
    Completed,
    /// It ended with an error.
    Failed,
    /// It was stopped, or its time was over.
    Stopped,
}

/// How a member ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberOutcome {
    /// With this answer.
    Completed(String),
    /// With this error.
    Failed(String),
    /// It was stopped: because it was told to, or for this reason.
    Stopped(Option<String>),
}

/// A member of a team.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// `teammate-1`; never given twice, unlike a name.
    pub id: String,
    /// What the others call it.
    pub name: String,
    /// Where it stands.
    pub status: MemberStatus,
    /// What it was asked.
    pub task: String,
    /// When it joined.
    pub joined_at: Timestamp,
    /// Its run, once it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// What it gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// What went wrong, or why it was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Member {
    /// True if it works.
    pub fn is_active(&self) -> bool {
        self.status == MemberStatus::Active
    }

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

    /// The event by which the lead's run tells that it came to stand where it does.
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
