//! A question to a person about one exact call, and its answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::resource::Approvers;
use crate::{ApprovalId, ToolCall};

/// What a run that makes a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// A person's decision about the call.
    #[default]
    Call,
    /// A person's answer to a question. The tool puts it to the person in place of doing something.
    Question,
    /// A person's word about a call that was interrupted: nobody knows whether it had its effect.
    EffectUnknown,
    /// The end of other runs. No person answers it, and no person sees it.
    Runs,
}

impl RequestKind {
    fn is_call(&self) -> bool {
        *self == Self::Call
    }
}

/// A question to a person: may this exact call run?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRequest {
    /// The question's own id.
    pub id: ApprovalId,
    /// What the run waits for. The API does not document it: an approval has a kind of its own there.
    #[serde(default, skip_serializing_if = "RequestKind::is_call")]
    #[schemars(skip)]
    pub kind: RequestKind,
    /// The exact call, arguments included. A decision is good for this and nothing else.
    pub call: ToolCall,
    /// Why it asks, in the tool's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What the tool wants to show with the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// The revision of the policy that asks, if one does. A decision is good for no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_revision: Option<String>,
    /// Whose approval counts, where anybody's one yes is not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<Box<Approvers>>,
}

/// The answer to an [`ApprovalRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// Run it.
    Approve,
    /// Run it: these people said so. The answer to a question that names [`approvers`](ApprovalRequest::approvers).
    ApprovedBy {
        /// Everybody who said yes, each by the name that the rule knows.
        by: Vec<String>,
    },
    /// Do not run it; the model is told why.
    Deny {
        /// Why not.
        #[serde(default)]
        reason: String,
    },
}

impl ApprovalDecision {
    /// True for a yes. Whether it is enough, the question says.
    pub const fn is_yes(&self) -> bool {
        matches!(self, Self::Approve | Self::ApprovedBy { .. })
    }
}
