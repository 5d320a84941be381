//! Validates request bodies against the OpenAPI document, so that the server accepts exactly what the document describes.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use jsonschema::Validator;
use provost_api::Problem;
use serde_json::{Value, json};

use super::document;
use super::validation_message::{ValidationMessage, validation_message};
use crate::error;

/// Schema of an operation's request body. The validator is compiled on first use.
pub(crate) struct BodySchema {
    schema: Value,
    validator: OnceLock<Option<Validator>>,
}

impl BodySchema {
    /// Returns the schema of an operation's request body. `None` if the operation has none.
    pub(crate) fn of(operation: &str) -> Option<&'static Self> {
        static ALL: LazyLock<HashMap<&str, BodySchema>> = LazyLock::new(all);
        ALL.get(operation)
    }

    /// Rejects a body that the document does not permit.
    pub(crate) fn check(&self, body: &[u8]) -> Result<(), Problem> {
        let Some(validator) = self.validator.get_or_init(|| self.validator()) else {
            return Ok(());
        };
        let body: Value = serde_json::from_slice(body)
            .map_err(|error| error::invalid("body", &error.to_string()))?;
        // A check without messages is cheaper, and most bodies are valid.
        if validator.is_valid(&body) {
            return Ok(());
        }
        let Err(error) = validator.validate(&body) else {
            return Ok(());
        };
        let ValidationMessage { field, text } = validation_message(&error);
        Err(error::invalid(&field, &text))
    }

    fn validator(&self) -> Option<Validator> {
        let mut root = self.schema.clone();
        root["components"] = json!({"schemas": document()["components"]["schemas"]});
        let validator = jsonschema::validator_for(&root);
        validator
            .inspect_err(
                |error| tracing::error!(%error, "a schema of the OpenAPI document is invalid"),
            )
            .ok()
    }
}

fn all() -> HashMap<&'static str, BodySchema> {
    let operations = document()["paths"].as_object().into_iter().flatten();
    let operations = operations.flat_map(|(_, item)| item.as_object().into_iter().flatten());
    let with_body = operations.filter_map(|(_, operation)| {
        let schema = operation.pointer("/requestBody/content/application~1json/schema")?;
        let body = BodySchema { schema: schema.clone(), validator: OnceLock::new() };
        Some((operation["operationId"].as_str()?, body))
    });
    with_body.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_body_has_a_schema_that_works() {
        let all = all();
        assert!(all.contains_key("submitTask"));
        for (id, schema) in all {
            assert!(schema.validator().is_some(), "{id}");
        }
    }

    #[test]
    fn what_reading_forgives_is_refused() {
        let schema = BodySchema::of("submitTask").unwrap();
        assert!(
            schema.check(br#"{"message":"hi","attachments":[{"type":"text","text":"x"}]}"#).is_ok()
        );
        let problem = schema.check(br#"{"message":"hi","attachments":[{"type":0,"text":"x"}]}"#);
        let validation_message = problem.unwrap_err().fields.remove(0);
        assert_eq!(validation_message.field, "attachments.0.type");
        assert!(
            validation_message.problem.contains("text, image")
                && validation_message.problem.contains(" or "),
            "{validation_message:?}"
        );
        let problem = schema.check(br#"{"message":"hi","routing":[]}"#);
        assert_eq!(problem.unwrap_err().fields[0].field, "routing");
        assert_eq!(schema.check(b"[]").unwrap_err().fields[0].field, "body");
    }
}
