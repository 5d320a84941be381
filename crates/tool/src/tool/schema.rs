//! JSON Schemas: of types, and checking values against them with errors a model can act on.

use std::sync::OnceLock;

use provost_core::text::truncate_chars;
use schemars::JsonSchema;
use serde_json::Value;

/// How many faults one error tells about; a model fixes them better together than one by one.
const FAULTS_MAX: usize = 5;
/// Characters of one fault: a schema may quote a huge value.
const FAULT_CHARS_MAX: usize = 300;

/// The JSON Schema of a type, without the word that says which edition it follows.
pub fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = schemars::generate::SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    if let Some(root) = schema.as_object_mut() {
        // Tokens the model would pay for without learning anything.
        root.remove("$schema");
    }
    schema
}

/// Why a value does not fit, or a schema is no schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaError(pub String);

/// A schema that is compiled when it is first needed: defining a tool stays cheap.
#[derive(Debug)]
pub(crate) struct SchemaCheck {
    schema: Value,
    compiled: OnceLock<Result<jsonschema::Validator, SchemaError>>,
}

impl SchemaCheck {
    pub(crate) fn new(schema: Value) -> Self {
        Self { schema, compiled: OnceLock::new() }
    }

    pub(crate) fn compile(&self) -> Result<&jsonschema::Validator, SchemaError> {
        let compiled = self.compiled.get_or_init(|| {
            jsonschema::options()
                .with_draft(jsonschema::Draft::Draft202012)
                .build(&self.schema)
                .map_err(|error| SchemaError(truncate_chars(&error.to_string(), FAULT_CHARS_MAX)))
        });
        compiled.as_ref().map_err(Clone::clone)
    }

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
