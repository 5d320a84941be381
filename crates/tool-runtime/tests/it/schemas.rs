//! The published schemas are those of the types. `UPDATE=1` writes them anew.

use std::path::PathBuf;

use provost_core::contract::{ToolRequest, ToolResponse};
use serde_json::Value;

fn published(name: &str, schema: &Value) {
    let dir = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/tool-contract-v1"
    ));
    let path = dir.join(format!("{name}.schema.json"));
    let text = serde_json::to_string_pretty(schema).unwrap() + "\n";
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "{} is out of date: run with UPDATE=1", path.display());
}

#[test]
fn the_schemas_of_the_contract_are_published() {
    published("request", schemars::schema_for!(ToolRequest).as_value());
    published("response", schemars::schema_for!(ToolResponse).as_value());
}
