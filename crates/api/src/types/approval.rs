//! Questions to people and their answers.

use provost_core::lifecycle::{ApprovalKind, ApprovalState, ApprovalTimeoutAction};
use provost_core::{ApprovalId, ApprovalRequest, RunId, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Time;

/// A question as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// The id.
    pub id: ApprovalId,
    /// The task it belongs to.
    pub task: TaskId,
    /// The run that waits.
    pub run: RunId,
    /// The step that waits, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// What is asked.
    pub kind: ApprovalKind,
    /// Where it stands.
    pub state: ApprovalState,
    /// What is shown to people.
    pub request: ApprovalRequest,
    /// Exactly what will be done.
    pub plan: Value,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Value>,
    /// Who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// When it was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Time>,
    /// When the fallback answers.
    pub expires: Time,
    /// The answer at expiry.
    pub fallback: ApprovalTimeoutAction,
    /// When it was asked.
    pub created: Time,
    /// How far several people are with it; nothing where the first answer settles it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tally: Option<Tally>,
}

/// How far several people, or certain ones, are with a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tally {
    /// How many must say yes; one no settles it.
    pub needed: u32,
    /// How many have said yes.
    pub have: u32,
    /// Who counts; nobody named means that everybody does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of: Vec<String>,
    /// Who does not count, because they started the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not: Vec<String>,
    /// Those of `of` who count and have said nothing yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaited: Vec<String>,
    /// What was said, in order; the first word of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Vote>,
}

/// What one person said to a question that several decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Vote {
    /// Who: the name of the token.
    pub by: String,
    /// Yes or no.
    pub decision: Decision,
    /// When.
    pub at: Time,
}

impl Tally {
    /// What is missing, as people say it.
    pub fn missing(&self) -> String {
        let more = self.needed.saturating_sub(self.have);
        match (more, self.awaited.as_slice()) {
            (0, _) => "nobody is missing".to_owned(),
            (more, []) => format!("{more} more must approve"),
            (more, names) => format!("{more} more of {} must approve", names.join(", ")),
        }
    }
}

/// Which questions to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalList {
    /// In this state only; `pending` if neither this nor `all` is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ApprovalState>,
    /// True for all of them, whatever their state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
    /// Of this run only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Of this task only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Items of a page: 1 to 500.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u64>,
    /// Where the page begins: `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Do exactly what was planned.
    Approve,
    /// Do not.
    Deny,
    /// An answer in words: what the agent asked, or what came of a call whose outcome nobody knew.
    Answer,
}

/// An answer to a question. The first one counts; where several people decide, the first one of each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Yes or no.
    pub decision: Decision,
    /// Why not; or the answer in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// How far a yes reaches: `once` (the default), `run`, `session`, `always`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<provost_core::lifecycle::GrantScope>,
}

/// What an answer did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answered {
    /// True if this answer counts; false if the question was settled before.
    pub counts: bool,
    /// The question as it stands now.
    pub approval: Approval,
}

/// A yes that reaches further than one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Grant {
    /// For whom: `run:<id>`, `session:<id>` or `agent:<name>`.
    pub scope: String,
    /// For which call.
    pub call_key: String,
    /// What was approved.
    pub plan: Value,
    /// Who approved.
    pub granted_by: String,
    /// When.
    pub created: Time,
}

/// Which grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantKey {
    /// For whom.
    pub scope: String,
    /// For which call.
    pub call_key: String,
}
