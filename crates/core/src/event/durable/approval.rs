//! Payloads of approval events.

use serde::{Deserialize, Serialize};

use crate::{ApprovalDecision, ApprovalId, ApprovalRequest};

/// The run requests an approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalNeeded {
    /// The approval request.
    pub request: Box<ApprovalRequest>,
}

/// An approval request was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalDecided {
    /// Id of the request.
    pub id: ApprovalId,
    /// The decision.
    pub decision: ApprovalDecision,
    /// Name of the person who decided. `None` if the active attempt records a decision that it received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// One of several approvers voted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalVote {
    /// Id of the request.
    pub id: ApprovalId,
    /// Name of the voter.
    pub by: String,
    /// The vote.
    pub answer: VoteChoice,
    /// Number of approving votes so far.
    pub have: u64,
    /// Number of approving votes that are required.
    pub needed: u64,
}

/// One person's vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VoteChoice {
    /// Approval.
    Approve,
    /// Denial.
    Deny,
}
