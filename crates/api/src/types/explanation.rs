//! Explanations of waiting and failed runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cause of a state, its evidence and the possible next steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// Id of the explained run, task, approval, session or delivery.
    pub subject: String,
    /// State of the subject.
    pub state: String,
    /// Stable code of the cause.
    pub code: String,
    /// The cause in one sentence.
    pub cause: String,
    /// Observed values that support the cause.
    pub evidence: Vec<Evidence>,
    /// Steps that can resolve the cause.
    pub next: Vec<NextStep>,
    /// Ids of the objects that the subject depends on.
    pub related: Vec<String>,
}

/// An observed value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Name of the value.
    pub what: String,
    /// The value.
    pub value: String,
}

/// A step that can resolve the cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NextStep {
    /// Command to run.
    pub command: String,
    /// Effect of the command.
    pub why: String,
}
