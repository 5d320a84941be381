//! Reads definitions that earlier versions stored.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{ALL_TOOLS, AgentSpec};
use crate::hash::sha256_hex;

/// Number of hash digits in the name of a directory's workspace.
const WORKSPACE_DIGITS: usize = 8;
/// Maximum number of characters of the directory in the name of its workspace.
const WORKSPACE_CHARS_MAX: usize = 40;

/// Returns the name of the workspace of a directory: its last component and a hash of its absolute path.
pub fn workspace_name(dir: &Path) -> String {
    let legal = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let last = dir.file_name().unwrap_or_default().to_string_lossy();
    let mut name: String = last.chars().filter(legal).take(WORKSPACE_CHARS_MAX).collect();
    let hash = sha256_hex(dir.as_os_str().as_encoded_bytes());
    name.push('-');
    name.push_str(&hash[..WORKSPACE_DIGITS]);
    name
}

impl AgentSpec {
    /// Reads a stored definition. Versions before this one stored the fields of a terminal's agent under `terminal`,
    /// and marked an agent of a manifest with `declared`.
    pub fn from_stored(text: &str) -> serde_json::Result<Self> {
        let mut fields: Map<String, Value> = serde_json::from_str(text)?;
        fields.remove("declared");
        if let Some(Value::Object(terminal)) = fields.remove("terminal") {
            fields.append(&mut terminal_fields(terminal));
        }
        serde_json::from_value(Value::Object(fields))
    }
}

/// Converts the fields of a terminal's agent.
fn terminal_fields(mut old: Map<String, Value>) -> Map<String, Value> {
    let mut fields = Map::from_iter([("ask_user".to_owned(), json!(false))]);
    let mut endpoint = Map::new();
    for key in ["base_url", "api_key_env"] {
        endpoint.extend(old.remove(key).map(|value| (key.to_owned(), value)));
    }
    if !endpoint.is_empty() {
        fields.insert("endpoint".to_owned(), Value::Object(endpoint));
    }
    if let Some(files) = old.remove("files") {
        let access = if files["write"] == json!(true) { "rw" } else { "ro" };
        fields.insert("files".to_owned(), json!(access));
        let dir = files["dir"].as_str().unwrap_or_default();
        fields.insert("workspace".to_owned(), json!(workspace_name(Path::new(dir))));
    }
    if old.contains_key("resources") && old.get("tools") == Some(&json!(true)) {
        for key in ["declared_tools", "mcp_servers"] {
            fields.insert(key.to_owned(), json!([ALL_TOOLS]));
        }
    }
    for key in ["tools", "shell", "max_turns", "timeout_ms"] {
        fields.extend(old.remove(key).map(|value| (key.to_owned(), value)));
    }
    fields
}
