//! What a model is told about a tool.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The model-visible part of a tool: name, purpose and a whole JSON Schema of its arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDef {
    /// `[A-Za-z0-9_-]{1,64}`: what every vendor accepts.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema (2020-12) of the arguments; the root is an object.
    pub input_schema: Value,
}
