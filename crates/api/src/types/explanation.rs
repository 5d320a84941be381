//! Why something waits or why it failed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cause, the evidence and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// What is explained.
    pub subject: String,
    /// How it stands.
    pub state: String,
    /// The stable code of the cause.
    pub code: String,
    /// The cause in one sentence.
    pub cause: String,
    /// What was seen.
    pub evidence: Vec<Evidence>,
    /// What can be done.
    pub next: Vec<NextStep>,
    /// The ids of what it depends on.
    pub related: Vec<String>,
}

/// Something that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// What.
    pub what: String,
    /// How it is.
    pub value: String,
}

/// Something that can be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NextStep {
    /// The command.
    pub command: String,
    /// Why.
    pub why: String,
}
