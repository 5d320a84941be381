//! Payloads of events about questions to people.

use serde::{Deserialize, Serialize};

use crate::{ApprovalDecision, ApprovalId, ApprovalRequest};

/// The run asks a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalNeeded {
    /// The question.
    pub request: Box<ApprovalRequest>,
}

/// A question has its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalDecided {
    /// The question.
    pub id: ApprovalId,
    /// The answer.
    pub decision: ApprovalDecision,
    /// Who answered; none if the attempt at work records an answer that it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// One of several people voted on a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalVote {
    /// The question.
    pub id: ApprovalId,
    /// Who voted.
    pub by: String,
    /// The vote.
    pub answer: Vote,
    /// Votes for yes so far.
    pub have: u64,
    /// Votes for yes that are required.
    pub needed: u64,
}

/// One person's vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vote {
    /// Yes.
    Approve,
    /// No.
    Deny,
}
