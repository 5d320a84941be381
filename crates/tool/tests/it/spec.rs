//! Specifications: names, schemas from outside and schemas from types.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use provost_tool::{DependencyType, RequiresApproval, ToolSpec, ToolSpecError, schema_of};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Fast,
    Slow,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Stop {
    /// Where.
    place: String,
    minutes: Option<u32>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Trip {
    /// Where to.
    to: String,
    mode: Mode,
    first: Stop,
    stops: Vec<Stop>,
    tags: Vec<String>,
    note: Option<String>,
    #[serde(default)]
    approver: u8,
    #[serde(skip)]
    _secret: u8,
}

fn schema<A: JsonSchema>() -> Value {
    let spec = ToolSpec::typed::<A>("trip", "Plans a trip").unwrap();
    spec.def().input_schema.clone()
}

#[test]
fn s214_required_optional_and_skipped_fields() {
    let schema = schema::<Trip>();
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["required"], json!(["to", "mode", "first", "stops", "tags"]));
    let properties: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(properties, ["to", "mode", "first", "stops", "tags", "note", "approver"]);
    assert_eq!(schema["properties"]["to"]["description"], "Where to.");
    assert_eq!(schema["properties"]["approver"]["default"], 0);
    assert_eq!(schema["properties"]["note"]["type"], json!(["string", "null"]));
}

#[test]
fn the_schema_of_a_type_keeps_its_name_and_the_tools_does_not() {
    let mut of_type = schema_of::<Trip>();
    assert_eq!(of_type.get("$schema"), None);
    assert_eq!(of_type["title"], "Trip");
    of_type.as_object_mut().unwrap().remove("title");
    assert_eq!(of_type, schema::<Trip>());
}

#[test]
fn s214_nested_types_enums_and_lists() {
    let schema = schema::<Trip>();
    assert_eq!(schema["properties"]["stops"]["type"], "array");
    assert_eq!(schema["properties"]["tags"]["items"]["type"], "string");
    let stop = schema["properties"]["first"]["$ref"].as_str().unwrap();
    assert_eq!(schema["properties"]["stops"]["items"]["$ref"], stop);
    let stop = schema.pointer(stop.trim_start_matches('#')).unwrap();
    assert_eq!(stop["properties"]["place"]["description"], "Where.");
    assert_eq!(stop["required"], json!(["place"]));
    let mode = schema["properties"]["mode"]["$ref"].as_str().unwrap();
    let mode = schema.pointer(mode.trim_start_matches('#')).unwrap();
    assert_eq!(mode["enum"], json!(["fast", "slow"]));
}

#[test]
fn s214_a_boxed_struct_is_the_struct_and_a_unit_is_empty() {
    assert_eq!(schema::<Box<Trip>>(), schema::<Trip>());
    assert_eq!(schema::<()>(), json!({"type": "object", "properties": {}}));
}

#[test]
fn s214_what_is_no_object_is_refused() {
    for refused in
        [ToolSpec::typed::<String>("trip", "Plans"), ToolSpec::typed::<Vec<u8>>("trip", "Plans")]
    {
        match refused {
            Err(ToolSpecError::Schema { tool, problem }) => {
                assert_eq!(tool, "trip");
                assert!(problem.contains("object"), "{problem}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_schema_from_a_type_carries_no_clutter() {
    let schema = schema::<Trip>();
    assert_eq!(schema.get("$schema"), None);
    assert_eq!(schema.get("title"), None);
}

#[test]
fn a_typed_spec_accepts_what_the_type_accepts() {
    let spec = ToolSpec::typed::<Trip>("trip", "Plans a trip").unwrap();
    let good = json!({"to": "Oslo", "mode": "fast", "first": {"place": "a"}, "stops": [], "tags": ["x"], "note": null});
    spec.check(&good).unwrap();
    serde_json::from_value::<Trip>(good).unwrap();
    let bad = json!({"to": "Oslo", "mode": "late", "first": {}, "stops": [], "tags": []});
    let faults = spec.check(&bad).unwrap_err().to_string();
    assert!(faults.contains("mode: ") && faults.contains("first: "), "{faults}");
}

#[test]
fn a_map_of_arguments_is_an_object() {
    let spec = ToolSpec::typed::<BTreeMap<String, u8>>("count", "Counts").unwrap();
    spec.check(&json!({"a": 1})).unwrap();
    assert!(spec.check(&json!({"a": "x"})).is_err());
}

#[test]
fn names_that_a_vendor_would_refuse_are_refused() {
    let longest = "x".repeat(64);
    for name in ["a", "get_weather", "Get-Weather-2", &longest] {
        ToolSpec::new(name, "Does it", json!({})).unwrap();
    }
    let too_long = "x".repeat(65);
    for name in ["", "get weather", "a.b", "météo", "a/b", "a\n", &too_long] {
        let error = ToolSpec::new(name, "Does it", json!({})).unwrap_err();
        assert_eq!(error, ToolSpecError::Name { name: name.to_owned() });
    }
    let huge = ToolSpec::new("é".repeat(1_000_000), "Does it", json!({})).unwrap_err();
    assert!(huge.to_string().len() < 500);
}

#[test]
fn schemas_that_are_none_are_refused() {
    for schema in [
        json!(true),
        json!([]),
        json!("object"),
        json!({"type": "string"}),
        json!({"type": ["object", "null"]}),
        json!({"type": 3}),
        json!({"properties": {"a": {"type": "text"}}}),
        json!({"properties": {"a": {"pattern": "("}}}),
        json!({"properties": 3}),
        json!({"$ref": "#/$defs/absent"}),
        json!({"required": "a"}),
    ] {
        let shown = schema.to_string();
        match ToolSpec::new("trip", "Plans a trip", schema) {
            Err(ToolSpecError::Schema { tool, .. }) => assert_eq!(tool, "trip"),
            other => panic!("{shown}: {other:?}"),
        }
    }
}

#[test]
fn a_schema_never_reaches_out() {
    let outside = json!({"properties": {"a": {"$ref": "http://127.0.0.1:1/schema.json"}}});
    assert!(ToolSpec::new("trip", "Plans a trip", outside).is_err());
    let file = json!({"properties": {"a": {"$ref": "file:///etc/hostname"}}});
    assert!(ToolSpec::new("trip", "Plans a trip", file).is_err());
}

#[test]
fn a_schema_without_a_type_is_an_object() {
    let spec = ToolSpec::new("trip", "Plans a trip", json!({})).unwrap();
    assert_eq!(spec.def().input_schema, json!({"type": "object", "properties": {}}));
    assert!(spec.check(&json!([])).is_err());
}

#[test]
fn settings_and_another_name() {
    let spec = ToolSpec::new("trip", "Plans a trip", json!({"required": ["to"]})).unwrap();
    let set = spec
        .clone()
        .approval(RequiresApproval::Always)
        .timeout(Duration::from_secs(1))
        .retries(7)
        .exclusive()
        .needs(DependencyType::of::<u8>());
    let renamed = set.renamed("travel").unwrap();
    assert_eq!((renamed.name(), spec.name()), ("travel", "trip"));
    assert_eq!(renamed.def().description, "Plans a trip");
    assert!(matches!(renamed.approval, RequiresApproval::Always));
    assert_eq!(renamed.timeout, Duration::from_secs(1));
    assert_eq!((renamed.retries, renamed.exclusive), (7, true));
    assert_eq!(renamed.deps, [DependencyType::of::<u8>()]);
    assert!(renamed.check(&json!({})).is_err());
    assert!(set.renamed("two words").is_err());
    assert!(Arc::ptr_eq(spec.def(), spec.clone().def()));
}
