//! Bodies held against the document: what it does not allow is refused, so that it is true for whoever generates from it.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use jsonschema::Validator;
use provost_api::Problem;
use serde_json::{Value, json};

use super::served;
use super::validation_message::{Fault, fault};
use crate::error;

/// The schema of one operation's body; it is made ready when it is first needed.
pub(crate) struct BodySchema {
    schema: Value,
    validator: OnceLock<Option<Validator>>,
}

impl BodySchema {
    /// The schema of an operation's body, if it has one.
    pub(crate) fn of(operation: &str) -> Option<&'static Self> {
        static ALL: LazyLock<HashMap<&str, BodySchema>> = LazyLock::new(all);
        ALL.get(operation)
    }

    /// Refuses a body that the document does not allow. It is known to be JSON.
    pub(crate) fn check(&self, body: &[u8]) -> Result<(), Problem> {
        let Some(validator) = self.validator.get_or_init(|| self.validator()) else {
            return Ok(());
        };
        let body: Value = serde_json::from_slice(body)
            .map_err(|error| error::invalid("body", &error.to_string()))?;
        // Saying what is wrong costs more than knowing whether anything is.
        if validator.is_valid(&body) {
            return Ok(());
        }
        let Err(error) = validator.validate(&body) else {
            return Ok(());
        };
        let Fault { field, sentence } = fault(&error);
        Err(error::invalid(&field, &sentence))
    }

    fn validator(&self) -> Option<Validator> {
        let mut root = self.schema.clone();
        root["components"] = json!({"schemas": served()["components"]["schemas"]});
        let validator = jsonschema::validator_for(&root);
        validator
            .inspect_err(|error| tracing::error!(%error, "a schema of the document is broken"))
            .ok()
    }
}

fn all() -> HashMap<&'static str, BodySchema> {
    let operations = served()["paths"].as_object().into_iter().flatten();
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
        let refused = schema.check(br#"{"message":"hi","attachments":[{"type":0,"text":"x"}]}"#);
        let fault = refused.unwrap_err().fields.remove(0);
        assert_eq!(fault.field, "attachments.0.type");
        assert!(
            fault.problem.contains("text, image") && fault.problem.contains(" or "),
            "{fault:?}"
        );
        let refused = schema.check(br#"{"message":"hi","routing":[]}"#);
        assert_eq!(refused.unwrap_err().fields[0].field, "routing");
        assert_eq!(schema.check(b"[]").unwrap_err().fields[0].field, "body");
    }
}
