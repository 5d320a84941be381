//! Approvals, their decisions and standing approvals.

use provost_core::lifecycle::{ApprovalKind, ApprovalState, ApprovalTimeoutAction, GrantScope};
use provost_core::{ApprovalId, ApprovalRequest, RunId, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::DateTime;

/// A request to a person to decide about one action of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// Id of the approval.
    pub id: ApprovalId,
    /// Task of the run.
    pub task: TaskId,
    /// Run that waits for the decision.
    pub run: RunId,
    /// Step that waits for the decision. Absent if the approval is not about a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Kind of the approval.
    pub kind: ApprovalKind,
    /// State of the approval.
    pub state: ApprovalState,
    /// Request to show to the approver.
    pub request: ApprovalRequest,
    /// Exact action that an approval permits.
    pub plan: Value,
    /// Recorded decision. Absent while the approval is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Value>,
    /// Name of the token that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// Time of the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<DateTime>,
    /// Time at which `fallback` decides.
    pub expires: DateTime,
    /// Decision that applies when the approval expires.
    pub fallback: ApprovalTimeoutAction,
    /// Creation time.
    pub created: DateTime,
    /// Votes so far. Absent if the first decision settles the approval.
    #[serde(rename = "tally", default, skip_serializing_if = "Option::is_none")]
    pub vote_count: Option<VoteCount>,
}

/// Votes on an approval that needs several approvers or certain ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VoteCount {
    /// Number of approving votes that the approval needs. One denial settles it.
    #[serde(rename = "needed")]
    pub required: u32,
    /// Number of approving votes so far.
    #[serde(rename = "have")]
    pub approved: u32,
    /// Names of the approvers whose votes count. If empty, every vote counts.
    #[serde(rename = "of", default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
    /// Names whose votes do not count, because they requested the run.
    #[serde(rename = "not", default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<String>,
    /// Names from `of` whose votes count and that have not voted yet.
    #[serde(rename = "awaited", default, skip_serializing_if = "Vec::is_empty")]
    pub missing_approvers: Vec<String>,
    /// The first vote of each approver, in the order of arrival.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Vote>,
}

/// The vote of one approver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Vote {
    /// Name of the approver's token.
    pub by: String,
    /// Decision of the approver.
    pub decision: Decision,
    /// Time of the vote.
    pub at: DateTime,
}

impl VoteCount {
    /// Returns a line of text that names the missing votes.
    pub fn describe_missing(&self) -> String {
        let more = self.required.saturating_sub(self.approved);
        match (more, self.missing_approvers.as_slice()) {
            (0, _) => "no vote is missing".to_owned(),
            (more, []) => format!("{more} more must approve"),
            (more, names) => format!("{more} more of {} must approve", names.join(", ")),
        }
    }
}

/// Filter of the list of approvals.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalQuery {
    /// Lists only approvals in this state. The default is `pending`, unless `all` is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ApprovalState>,
    /// Lists approvals in every state. It cannot be combined with `state`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
    /// Lists only approvals of this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Lists only approvals of this task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Maximum number of items in the page, from 1 to 500. The default is 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u64>,
    /// Start of the page: the `next` value of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Decision about an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Permits exactly the planned action.
    Approve,
    /// Denies the planned action.
    Deny,
    /// Replies with text: the answer to a question of the agent, or the outcome of a call whose outcome is unknown.
    #[serde(rename = "answer")]
    Reply,
}

/// A decision about an approval. The first decision counts. If several approvers decide, the first decision of each counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionRequest {
    /// The decision.
    pub decision: Decision,
    /// Reason of a denial, or the text of a reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Calls that an approval covers. The default is `once`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantScope>,
}

/// Result of a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalReceipt {
    /// True if this decision counts. False if the approval was already settled.
    #[serde(rename = "counts")]
    pub accepted: bool,
    /// The approval after the decision.
    pub approval: Approval,
}

/// An approval that also covers later calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StandingApproval {
    /// Runs that it covers: `run:<id>`, `session:<id>` or `agent:<name>`.
    pub scope: String,
    /// Key of the calls that it covers.
    pub call_key: String,
    /// Action that was approved.
    pub plan: Value,
    /// Name of the token that approved.
    pub granted_by: String,
    /// Creation time.
    pub created: DateTime,
}

/// Identifies a standing approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StandingApprovalKey {
    /// Scope of the standing approval.
    pub scope: String,
    /// Call key of the standing approval.
    pub call_key: String,
}
