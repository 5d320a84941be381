//! Tool definitions that are sent to a model.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The part of a tool that a model receives: name, description and the JSON Schema of its arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// `[A-Za-z0-9_-]{1,64}`: the form that every vendor accepts.
    pub name: String,
    /// Description of the tool for the model.
    pub description: String,
    /// JSON Schema (2020-12) of the arguments; the root is an object.
    pub input_schema: Value,
}
