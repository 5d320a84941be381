//! What holds for every built-in tool.

use std::sync::Arc;

use provost_net::{NetClient, NetPolicy};
use provost_tool::{EffectClass, RequiresApproval, Tool};
use provost_workspace::Access;
use serde_json::{Value, json};

use crate::testing::Stage;
use crate::{calculator, clock, fetch, workspace_tools};

mod confinement;
mod walk;

fn all() -> Vec<Arc<dyn Tool>> {
    let stage = Stage::new();
    let mut tools = workspace_tools(&stage.workspace).unwrap();
    tools.push(Arc::new(fetch(NetClient::new(NetPolicy::default())).unwrap()));
    tools.push(Arc::new(clock().unwrap()));
    tools.push(Arc::new(calculator().unwrap()));
    tools
}

#[test]
fn each_tool_has_its_class_and_asks_if_it_changes_something() {
    let found: Vec<_> = all()
        .iter()
        .map(|tool| {
            let spec = tool.spec();
            let asks = matches!(spec.approval, RequiresApproval::Always);
            (spec.name().to_owned(), spec.effect, asks)
        })
        .collect();
    let found: Vec<_> = found.iter().map(|(name, class, asks)| (&**name, *class, *asks)).collect();
    assert_eq!(
        found,
        [
            ("read", EffectClass::Pure, false),
            ("list", EffectClass::Pure, false),
            ("search", EffectClass::Pure, false),
            ("write", EffectClass::Idempotent, true),
            ("edit", EffectClass::Provable, true),
            ("fetch", EffectClass::Pure, false),
            ("clock", EffectClass::Pure, false),
            ("calculator", EffectClass::Pure, false),
        ]
    );
}

#[test]
fn schemas_are_sealed_plain_objects_and_descriptions_are_short() {
    for tool in all() {
        let def = tool.spec().def();
        let schema = &def.input_schema;
        assert_eq!(schema["type"], "object", "{}", def.name);
        assert_eq!(schema["additionalProperties"], false, "{}", def.name);
        for union in ["oneOf", "anyOf", "allOf", "$defs"] {
            assert_eq!(schema.get(union), None, "{}: {schema}", def.name);
        }
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(property["type"].is_string(), "{}.{name}: {property}", def.name);
            assert!(property["description"].is_string(), "{}.{name}", def.name);
            assert!(!["user", "agent", "session", "action"].contains(&&**name), "{name}");
        }
        let words = def.description.split_whitespace().count();
        assert!((5..=60).contains(&words), "{}: {words} words", def.name);
        assert!(tool.spec().check(&json!({ "surprise": 1 })).is_err(), "{}", def.name);
    }
}

#[test]
fn a_workspace_gives_the_tools_that_it_allows() {
    let names = |access| -> Vec<String> {
        let stage = Stage::with(access);
        let tools = workspace_tools(&stage.workspace).unwrap();
        tools.iter().map(|tool| tool.spec().name().to_owned()).collect()
    };
    assert_eq!(names(Access::None), [""; 0]);
    assert_eq!(names(Access::ReadOnly), ["read", "list", "search"]);
    assert_eq!(names(Access::ReadWrite), ["read", "list", "search", "write", "edit"]);
}

#[test]
fn a_tool_made_for_a_workspace_that_forbids_it_is_refused_by_the_workspace() {
    let calls: [(&str, Value); 5] = [
        ("read", json!({ "path": "a" })),
        ("list", json!({})),
        ("search", json!({ "pattern": "a" })),
        ("write", json!({ "path": "a", "content": "b" })),
        ("edit", json!({ "path": "a", "old_string": "a", "new_string": "b" })),
    ];
    for access in [Access::None, Access::ReadOnly] {
        let stage = Stage::with(access);
        stage.put("a", "a");
        for (name, arguments) in &calls {
            let is_look = ["read", "list", "search"].contains(name);
            if access == Access::ReadOnly && is_look {
                stage.call(name, arguments.clone()).unwrap();
                continue;
            }
            let refusal = stage.error_text(name, arguments.clone());
            assert!(refusal.starts_with("the workspace "), "{refusal}");
        }
        assert_eq!(stage.text("a"), "a");
    }
}
