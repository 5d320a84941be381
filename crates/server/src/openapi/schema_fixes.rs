//! Corrections of generated schemas.

use serde_json::{Value, json};

/// Removes null from a schema, because optional query parameters are omitted.
pub(super) fn strip_null(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let Some(object) = schema.as_object_mut() else {
        return schema;
    };
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    for union in ["anyOf", "oneOf"] {
        let Some(Value::Array(variants)) = object.get_mut(union) else {
            continue;
        };
        variants.retain(|variant| variant != &json!({"type": "null"}));
        if let [only] = variants.as_slice() {
            let only = only.clone();
            object.remove(union);
            // The description of the property takes precedence over that of its type.
            for (key, value) in only.as_object().into_iter().flatten() {
                object.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }
    schema
}

/// Converts string enums with a description per variant to plain enums. The descriptions of the variants are appended to that
/// of the enum.
pub(super) fn flatten_string_enums(schemas: &mut Value) {
    let Some(schemas) = schemas.as_object_mut() else {
        return;
    };
    for schema in schemas.values_mut() {
        let Some(variants) = string_variants(schema) else { continue };
        let mut about = schema["description"].as_str().unwrap_or_default().to_owned();
        for (value, meaning) in &variants {
            about.push_str(&format!("\n- `{value}`: {meaning}"));
        }
        let values: Vec<&String> = variants.iter().map(|(value, _)| value).collect();
        *schema = json!({"description": about, "type": "string", "enum": values});
    }
}

/// Returns the values of a string enum with their descriptions. `None` if a variant is not a string.
fn string_variants(schema: &Value) -> Option<Vec<(String, String)>> {
    let variants = schema.get("oneOf")?.as_array()?;
    let mut values = Vec::new();
    for variant in variants {
        let meaning = variant.get("description").and_then(Value::as_str).unwrap_or_default();
        let listed = variant.get("enum").and_then(Value::as_array);
        let one = variant.get("const").map(std::slice::from_ref);
        for value in listed.map(Vec::as_slice).or(one)? {
            values.push((value.as_str()?.to_owned(), meaning.to_owned()));
        }
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_taken_out_of_every_form() {
        let check = |schema, expected| assert_eq!(strip_null(&schema), expected);
        check(json!({"type": ["string", "null"], "default": null}), json!({"type": "string"}));
        check(
            json!({"description": "d", "anyOf": [{"$ref": "#/x"}, {"type": "null"}]}),
            json!({"description": "d", "$ref": "#/x"}),
        );
        check(json!({"type": "boolean"}), json!({"type": "boolean"}));
    }

    #[test]
    fn words_become_one_enumeration() {
        let mut schemas = json!({
            "W": {"description": "W.", "oneOf": [
                {"description": "A.", "type": "string", "const": "a"},
                {"description": "B.", "type": "string", "enum": ["b"]},
            ]},
            "U": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        });
        let other = schemas["U"].clone();
        flatten_string_enums(&mut schemas);
        assert_eq!(schemas["W"]["enum"], json!(["a", "b"]));
        assert_eq!(schemas["W"]["description"], "W.\n- `a`: A.\n- `b`: B.");
        assert_eq!(schemas["U"], other);
    }
}
