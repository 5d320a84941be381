//! Changes of a definition: maps are merged.

use serde_json::{Map, Value};

use super::super::ResourceError;
use super::super::text::invalid_field;
use super::AgentSpec;

impl AgentSpec {
    /// Returns this definition with a change: maps are merged, `null` removes a field, other values replace.
    pub fn merged(&self, change: &Map<String, Value>) -> Result<Self, ResourceError> {
        let invalid = |error: serde_json::Error| {
            invalid_field("", error.to_string(), "send a value that the field accepts")
        };
        let mut fields = serde_json::to_value(self).map_err(invalid)?;
        merge(&mut fields, &Value::Object(change.clone()));
        serde_json::from_value(fields).map_err(invalid)
    }
}

fn merge(base: &mut Value, change: &Value) {
    let Value::Object(fields) = change else {
        *base = change.clone();
        return;
    };
    if !base.is_object() {
        *base = Value::Object(Map::new());
    }
    let Value::Object(known) = base else { return };
    for (key, value) in fields {
        match value {
            Value::Null => drop(known.remove(key)),
            value => merge(known.entry(key.clone()).or_insert(Value::Null), value),
        }
    }
}
