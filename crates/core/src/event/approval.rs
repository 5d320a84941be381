//! Approval requests for one exact tool call, and the decisions about them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::resource::Approvers;
use crate::{ApprovalId, ToolCall};

/// Reason why a run that makes the request waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalRequestKind {
    /// A person decides whether the call may run.
    #[default]
    Call,
    /// A person answers a question. The tool passes it on and has no effect of its own.
    Question,
    /// A person states the outcome of an interrupted call: it is unknown whether the call had its effect.
    EffectUnknown,
    /// The run waits until other runs end. The request is not shown to people.
    Runs,
}

impl ApprovalRequestKind {
    /// Returns true for [`ApprovalRequestKind::Call`], which is not serialized.
    fn is_call(&self) -> bool {
        *self == Self::Call
    }
}

/// Request to a person to decide whether one exact call may run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRequest {
    /// Id of the request.
    pub id: ApprovalId,
    /// Reason why the run waits. Not part of the API schema, because API approvals have their own kind.
    #[serde(default, skip_serializing_if = "ApprovalRequestKind::is_call")]
    #[schemars(skip)]
    pub kind: ApprovalRequestKind,
    /// The exact call with its arguments. A decision is valid for this call only.
    pub call: ToolCall,
    /// Reason for the request, as stated by the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Data of the tool to display with the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// Revision of the policy that requires the approval. `None` if no policy does. A decision is valid for this
    /// revision only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_revision: Option<String>,
    /// Required approvers. `None` if one approval of any person is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<Box<Approvers>>,
}

/// Decision about an [`ApprovalRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// Run the call.
    Approve,
    /// Run the call, approved by these people. Decides a request that names
    /// [`approvers`](ApprovalRequest::approvers).
    ApprovedBy {
        /// Names of all people who approved, spelled as in the rule.
        by: Vec<String>,
    },
    /// Do not run the call. The model receives the reason.
    Deny {
        /// Reason for the model.
        #[serde(default)]
        reason: String,
    },
}

impl ApprovalDecision {
    /// Returns true for an approval. The request determines whether it is sufficient.
    pub const fn is_approved(&self) -> bool {
        matches!(self, Self::Approve | Self::ApprovedBy { .. })
    }
}
