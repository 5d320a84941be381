//! JSON Schemas of types, and validation of values against them with errors for the model.

use std::sync::OnceLock;

use provost_core::text::truncate_chars;
use schemars::JsonSchema;
use serde_json::Value;

/// Maximum number of violations in one error. A model corrects several at once better than one by one.
const FAULTS_MAX: usize = 5;
/// Maximum length of one violation. It may quote a huge value.
const FAULT_CHARS_MAX: usize = 300;

/// Returns the JSON Schema of a type, without the `$schema` keyword.
pub fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = schemars::generate::SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    if let Some(root) = schema.as_object_mut() {
        // It costs tokens and does not help the model.
        root.remove("$schema");
    }
    schema
}

/// Error of an invalid schema, or of a value that does not match its schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaError(pub String);

/// A schema that is compiled on first use, so that defining a tool is cheap.
#[derive(Debug)]
pub(crate) struct CompiledSchema {
    schema: Value,
    compiled: OnceLock<Result<jsonschema::Validator, SchemaError>>,
}

impl CompiledSchema {
    pub(crate) fn new(schema: Value) -> Self {
        Self { schema, compiled: OnceLock::new() }
    }

    /// Returns the compiled schema. The first call compiles it. Returns an error if the schema is invalid.
    pub(crate) fn compile(&self) -> Result<&jsonschema::Validator, SchemaError> {
        let compiled = self.compiled.get_or_init(|| {
            jsonschema::options()
                .with_draft(jsonschema::Draft::Draft202012)
                .build(&self.schema)
                .map_err(|error| SchemaError(truncate_chars(&error.to_string(), FAULT_CHARS_MAX)))
        });
        compiled.as_ref().map_err(Clone::clone)
    }

    /// Returns an error that describes the first mismatches between a value and the schema.
    pub(crate) fn check(&self, value: &Value) -> Result<(), SchemaError> {
        let validator = self.compile()?;
        if validator.is_valid(value) {
            return Ok(());
        }
        let mut faults = Vec::new();
        for error in validator.iter_errors(value).take(FAULTS_MAX) {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "arguments" } else { &place[1..] };
            faults.push(format!(
                "{}: {}",
                place.replace('/', "."),
                truncate_chars(&error.to_string(), FAULT_CHARS_MAX)
            ));
        }
        Err(SchemaError(faults.join("; ")))
    }
}
