use serde_json::json;

use super::*;

fn city() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "City", "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "people": {"type": "integer", "format": "uint32", "minimum": 0, "description": "How many."},
            "twin": {"$ref": "#/$defs/Twin", "description": "the twin"},
            "note": {"type": ["string", "null"], "default": null}
        },
        "required": ["name"],
        "$defs": {"Twin": {"type": "object", "properties": {"x": {"oneOf": [{"const": 1}, {"const": 2}]}}}}
    })
}

#[test]
fn openai_gets_every_property_required_and_nothing_else_allowed() {
    let mut schema = city();
    schema["properties"]["name"] = json!({"type": "string"});
    assert_eq!(
        to_strict(&schema, SchemaDialect::OpenAi).unwrap(),
        json!({
            "title": "City", "type": "object",
            "properties": {
                "name": {"type": "string"},
                "people": {"type": "integer", "minimum": 0, "description": "How many."},
                "twin": {"$ref": "#/$defs/Twin"},
                "note": {"type": ["string", "null"]}
            },
            "$defs": {"Twin": {"type": "object", "properties": {"x": {"anyOf": [{"const": 1}, {"const": 2}]}},
                "required": ["x"], "additionalProperties": false}},
            "required": ["name", "people", "twin", "note"], "additionalProperties": false
        })
    );
}

#[test]
fn anthropic_gets_bounds_as_words_and_keeps_optional_properties() {
    let schema = to_strict(&city(), SchemaDialect::Anthropic).unwrap();
    assert_eq!(schema["required"], json!(["name"]));
    assert_eq!(schema["additionalProperties"], json!(false));
    assert_eq!(
        schema["properties"]["name"],
        json!({"type": "string", "description": "(minLength: 1)"})
    );
    assert_eq!(schema["properties"]["people"]["description"], "How many. (minimum: 0)");
    assert!(schema["properties"]["people"].get("minimum").is_none());
}

#[test]
fn what_the_dialect_cannot_say_is_not_said() {
    for schema in [
        json!({"type": "string"}),
        json!({"anyOf": [{"type": "object", "properties": {}}]}),
        json!({"type": "object"}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "properties": {"map": {"type": "object", "additionalProperties": {"type": "string"}}}}),
        json!({"type": "object", "properties": {"a": {"allOf": [{"type": "string"}]}}}),
        json!({"type": "object", "properties": {"a": {"not": {}}}}),
        json!({"type": "object", "properties": {"a": true}}),
        json!(true),
    ] {
        assert_eq!(to_strict(&schema, SchemaDialect::OpenAi), None, "{schema}");
        assert_eq!(to_strict(&schema, SchemaDialect::Anthropic), None, "{schema}");
    }
    let length = json!({"type": "object", "properties": {"a": {"type": "string", "minLength": 2}}});
    assert_eq!(to_strict(&length, SchemaDialect::OpenAi), None);
    let tree = json!({"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/T"}}},
        "$defs": {"T": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/T"}}}}}});
    assert!(to_strict(&tree, SchemaDialect::OpenAi).is_some());
    assert_eq!(to_strict(&tree, SchemaDialect::Anthropic), None);
}

#[test]
fn names_are_made_acceptable() {
    for (given, expected) in
        [("City", "City"), ("my city!", "my_city_"), ("", "answer"), ("Grüße", "Gr__e")]
    {
        assert_eq!(sanitize_name(given), expected);
    }
    assert_eq!(sanitize_name(&"x".repeat(100)).len(), 64);
}
