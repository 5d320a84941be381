//! Checks and encoding steps of a request that several wires share.

use provost_core::Role;
use provost_model::{
    ChatRequest, ModelError, ModelErrorClass, ModelInfo, StructuredOutputSupport, ToolChoice,
    has_date_suffix,
};
use serde::Serialize;
use serde_json::{Map, Value};

/// Heading before a summary that is sent to a model.
pub(crate) const SUMMARY_HEADING: &str = "Summary of the conversation so far:";

/// Returns an error if the tool choice names no tool of the request.
pub(crate) fn check_tool_choice(request: &ChatRequest) -> Result<(), ModelError> {
    let ToolChoice::Tool(name) = &request.tool_choice else {
        return Ok(());
    };
    let problem = if name.trim().is_empty() {
        "the tool choice names no tool: give the tool's name".to_owned()
    } else if request.tools.iter().all(|tool| &tool.name != name) {
        format!(
            "the tool choice `{name}` is not among the tools of the request: add it or choose another"
        )
    } else {
        return Ok(());
    };
    Err(ModelError::new(ModelErrorClass::InvalidRequest, problem))
}

/// Returns true if the model supports an output schema for this request.
pub(crate) fn allows_structured_output(request: &ChatRequest, info: &ModelInfo) -> bool {
    match info.native_output {
        StructuredOutputSupport::None => false,
        StructuredOutputSupport::WithoutTools => request.tools.is_empty(),
        StructuredOutputSupport::WithTools => true,
    }
}

/// Returns true if both names mean the same model, whose reasoning can then be sent back. Gateways add a path before
/// the name, and vendors add a date after it, some with `@`.
pub(crate) fn is_same_model(written_by: &str, requested: &str) -> bool {
    let tail = |name: &str| name.rsplit('/').next().unwrap_or(name).replace('@', "-");
    let (written_by, requested) = (tail(written_by), tail(requested));
    written_by == requested
        || has_date_suffix(&written_by, &requested)
        || has_date_suffix(&requested, &written_by)
}

/// Returns true if vendors send the role as `user`.
pub(crate) fn is_user_side(role: Role) -> bool {
    matches!(role, Role::User | Role::Tool | Role::Summary)
}

/// Serializes a request body and merges the additional fields of the caller. They replace existing fields, and null
/// removes a field.
pub(crate) fn to_body(
    body: &impl Serialize,
    extra: &Map<String, Value>,
) -> Result<Vec<u8>, ModelError> {
    let bytes = serde_json::to_vec(body).map_err(serialize_error)?;
    if extra.is_empty() {
        return Ok(bytes);
    }
    let mut fields: Map<String, Value> = serde_json::from_slice(&bytes).map_err(serialize_error)?;
    for (name, value) in extra {
        if value.is_null() {
            fields.shift_remove(name);
        } else {
            fields.insert(name.clone(), value.clone());
        }
    }
    serde_json::to_vec(&fields).map_err(serialize_error)
}

/// Creates the error of a request that cannot be serialized.
fn serialize_error(cause: serde_json::Error) -> ModelError {
    ModelError::new(
        ModelErrorClass::InvalidRequest,
        "the request cannot be serialized as JSON: check the settings and the schemas",
    )
    .caused_by(cause)
}
