//! Tables of `docs/reference/` that are written from this crate. With `UPDATE=1` the tests write them; otherwise they
//! fail if a table is stale.
//!
//! A table is between the lines `<!-- generated: NAME -->` and `<!-- end -->` of a page.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, also in what tests share"
)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::ErrorKind;
use provost_core::contract::ToolErrorCode;
use provost_core::resource::{
    A2aSpec, AgentPolicy, AgentRole, AgentSpec, Approvers, CliSpec, GrpcSpec, HttpSpec, McpFilter,
    McpIsolation, McpRef, McpServerResource, McpVariable, OperationRule, ProcessLimits, RetrySpec,
    RuntimeSpec, ToolAuth, ToolPermission, ToolResource, WasmSpec,
};
use provost_core::usage::limits;
use schemars::{JsonSchema, schema_for};
use serde_json::Value;

fn page_path(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(page)
}

/// Compares a generated table with the page, or writes it.
fn check_table(page: &str, name: &str, table: &str) {
    let path = page_path(page);
    let text = fs::read_to_string(&path).unwrap();
    let begin = format!("<!-- generated: {name} -->\n");
    let (before, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("{page}: no {begin}"));
    let (_, after) = rest.split_once("<!-- end -->").unwrap();
    let fresh = format!("{before}{begin}{table}<!-- end -->{after}");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &fresh).unwrap();
    } else {
        assert!(text == fresh, "docs/reference/{page} is stale: run scripts/generate");
    }
}

/// One test writes all tables of a page, because tests run concurrently.
#[test]
fn the_tables_of_errors_are_those_of_the_code() {
    let descriptions = schema_for!(ErrorKind);
    let mut table = "| kind | meaning | retry | HTTP | exit |\n|---|---|---|---|---|\n".to_owned();
    for kind in ErrorKind::ALL {
        let variants = descriptions.as_value()["oneOf"].as_array().unwrap();
        let variant = variants.iter().find(|variant| variant["const"] == kind.as_str()).unwrap();
        let (meaning, retry) = (sentence(variant), if kind.retryable() { "yes" } else { "no" });
        let (status, exit) = (kind.http_status(), kind.exit_code());
        writeln!(table, "| `{kind}` | {meaning} | {retry} | {status} | {exit} |").unwrap();
    }
    check_table("errors.md", "kinds", &table);

    let source = include_str!("../src/contract/fault.rs");
    let mut table = "| code | meaning | kind | retryable |\n|---|---|---|---|\n".to_owned();
    for code in ToolErrorCode::ALL {
        let meaning = doc_before(source, &format!("= \"{code}\","));
        let retry = if code.retryable() { "yes" } else { "no" };
        writeln!(table, "| `{code}` | {meaning} | `{}` | {retry} |", code.kind()).unwrap();
    }
    check_table("errors.md", "tool codes", &table);
}

/// Text of the documentation comment above the first line that contains `needle`.
fn doc_before(source: &str, needle: &str) -> String {
    let (before, _) = source.split_once(needle).unwrap_or_else(|| panic!("no {needle}"));
    let (above, _) = before.rsplit_once('\n').unwrap();
    let lines = above.lines().rev().map(str::trim);
    let mut doc: Vec<&str> = lines.map_while(|line| line.strip_prefix("///")).collect();
    doc.reverse();
    doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// A constant of the limits with its value as text.
macro_rules! constants {
    ($($name:ident),+ $(,)?) => {
        [$( (stringify!($name), Shown::shown(&limits::$name, stringify!($name))) ),+]
    };
}

trait Shown {
    fn shown(&self, name: &str) -> String;
}

impl Shown for Duration {
    fn shown(&self, _: &str) -> String {
        provost_core::resource::HumanDuration(*self).to_string()
    }
}

macro_rules! shown_numbers {
    ($($number:ty),+) => {$(
        impl Shown for $number {
            fn shown(&self, name: &str) -> String {
                number(u64::try_from(*self).unwrap(), name)
            }
        }
    )+};
}

shown_numbers!(u32, i32, u64, usize);

fn number(value: u64, name: &str) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.iter().find(|(unit, _)| value.is_multiple_of(*unit));
    match unit.filter(|_| name.contains("_BYTES_")) {
        Some((unit, text)) => format!("{} {text}", value / unit),
        None if name.contains("_BYTES_") => format!("{value} bytes"),
        None => value.to_string(),
    }
}

#[test]
fn the_table_of_limits_has_every_constant() {
    let rows = constants![
        TURNS_DEFAULT,
        DEPTH_DEFAULT,
        TOOL_TIMEOUT_DEFAULT,
        TOOL_OUTPUT_BYTES_MAX,
        TOOL_BINARY_BYTES_MAX,
        TOOL_ARGUMENTS_BYTES_MAX,
        CALLS_PER_TURN_MAX,
        PARALLEL_TOOLS_DEFAULT,
        ARGUMENT_RETRIES_DEFAULT,
        OUTPUT_RETRIES_DEFAULT,
        SSE_EVENT_BYTES_MAX,
        RESPONSE_BYTES_MAX,
        ERROR_BODY_BYTES_MAX,
        RUN_MESSAGES_PENDING_MAX,
        NAME_CHARS_MAX,
        LEASE_TTL_DEFAULT,
        LEASE_HEARTBEAT_DEFAULT,
        CRASHES_MAX,
        RUN_TIMEOUT_DEFAULT,
        ATTEMPTS_DEFAULT,
        ATTEMPTS_MAX,
        RETRY_DELAY_DEFAULT,
        RETRY_FACTOR_DEFAULT,
        RETRY_FACTOR_MAX,
        RETRY_CAP,
        INPUTS_PENDING_DEFAULT,
        INPUTS_PENDING_MAX,
        INPUT_DEBOUNCE_DEFAULT,
        INPUT_DEBOUNCE_MAX,
        APPROVAL_EXPIRY_DEFAULT,
        APPROVAL_EXPIRY_MAX,
        USER_QUESTION_EXPIRY_DEFAULT,
        DELIVERY_RETRY_DELAY,
        DELIVERY_RETRY_DELAY_MAX,
        DELIVERY_RETRY_WINDOW,
        WEBHOOKS_MAX,
        WEBHOOK_RETRY_DELAY,
        WEBHOOK_RETRY_DELAY_MAX,
        WEBHOOK_RETRY_WINDOW,
        CLASS_FAILURES_MAX,
        CLASS_FAILURES_WARN,
        CLASS_FAILURE_WINDOW,
        CLASS_PROBE_AFTER,
        CPU_MILLICORES_DEFAULT,
        CPU_MILLICORES_MAX,
        POLICY_MEMORY_BYTES_DEFAULT,
        MEMORY_BYTES_MAX,
        GPUS_MAX,
        COMMAND_TEXT_BYTES_MAX,
        COMMAND_BYTES_MAX,
        COMMAND_ATTACHMENTS_MAX,
        COMMAND_PARTS_MAX,
        COMMAND_PROMPT_BYTES_MAX,
        COMMAND_FIELD_BYTES_MAX,
        PRIORITY_MAX,
        NAMESPACE_CHARS_MAX,
        SESSION_CHARS_MAX,
    ];
    let source = include_str!("../src/usage/limits.rs");
    assert_eq!(source.matches("pub const ").count(), rows.len(), "list every constant here");
    let mut table = "| constant | value | meaning |\n|---|---|---|\n".to_owned();
    for (name, value) in rows {
        let meaning = doc_before(source, &format!("pub const {name}:"));
        writeln!(table, "| `{name}` | {value} | {meaning} |").unwrap();
    }
    check_table("limits.md", "constants", &table);
}

#[test]
fn the_tables_of_manifests_are_those_of_the_schemas() {
    for (name, table) in [
        ("Agent", fields::<AgentSpec>()),
        ("Tool", fields::<ToolResource>()),
        ("runtime", fields::<RuntimeSpec>()),
        ("retry", fields::<RetrySpec>()),
        ("auth", fields::<ToolAuth>()),
        ("http", fields::<HttpSpec>()),
        ("grpc", fields::<GrpcSpec>()),
        ("mcp", fields::<McpRef>()),
        ("a2a", fields::<A2aSpec>()),
        ("cli", fields::<CliSpec>()),
        ("wasm", fields::<WasmSpec>()),
        ("resources", fields::<ProcessLimits>()),
        ("McpServer", fields::<McpServerResource>()),
        ("env", fields::<McpVariable>()),
        ("tool_filter", fields::<McpFilter>()),
        ("isolation", fields::<McpIsolation>()),
        ("AgentRole", fields::<AgentRole>()),
        ("ToolPermission", fields::<ToolPermission>()),
        ("operation_rules", fields::<OperationRule>()),
        ("approvers", fields::<Approvers>()),
        ("AgentPolicy", fields::<AgentPolicy>()),
    ] {
        check_table("manifests.md", name, &table);
    }
}

#[test]
fn the_page_of_events_has_each_kind_of_a_live_event() {
    let page = fs::read_to_string(page_path("events.md")).unwrap();
    let (_, kinds) = page.split_once("\n## Kinds\n").unwrap();
    let (rows, _) = kinds.split_once("\n## ").unwrap();
    let (_, source) = include_str!("../src/event.rs").split_once("pub enum EventKind {\n").unwrap();
    let (variants, _) = source.split_once("\n}\n").unwrap();
    let names = variants.lines().filter_map(|line| line.strip_prefix("    ")).filter_map(|line| {
        let name: String = line.chars().take_while(char::is_ascii_alphanumeric).collect();
        name.starts_with(char::is_uppercase).then_some(name)
    });
    let mut count = 0;
    for name in names.filter(|name| name != "Unknown") {
        let words = name.char_indices().flat_map(|(place, letter)| {
            let gap = (place > 0 && letter.is_ascii_uppercase()).then_some('_');
            gap.into_iter().chain([letter.to_ascii_lowercase()])
        });
        let kind: String = words.collect();
        assert!(rows.contains(&format!("`{kind}`")), "docs/reference/events.md lacks `{kind}`");
        count += 1;
    }
    assert!(count > 20, "only {count} kinds found");
}

#[test]
fn the_table_of_providers_is_that_of_the_file() {
    let file = include_str!("../../provider/src/vendor/vendors.toml");
    let mut table =
        "| provider | aliases | wire | key | base URL |\n|---|---|---|---|---|\n".to_owned();
    for entry in file.split("[[provider]]").skip(1) {
        let value = |key: &str| {
            let prefix = format!("{key} = ");
            entry
                .lines()
                .find_map(|line| line.strip_prefix(&prefix))
                .map(|value| value.replace('"', ""))
        };
        let quoted = |key: &str| value(key).map_or(String::new(), |value| format!("`{value}`"));
        let wire = match value("wire").as_deref() {
            None | Some("azure") => "Chat Completions",
            Some("openai_responses") => "Responses",
            Some("anthropic") => "Messages",
            Some("gemini") => "Gemini",
            Some("ollama") => "Ollama",
            Some("bedrock") => "Converse",
            Some(other) => panic!("no name for the wire {other}"),
        };
        let aliases = value("aliases").unwrap_or_default();
        let aliases = aliases.trim_matches(['[', ']']);
        let base = [quoted("base_url"), quoted("base_url_variable")];
        let base = base.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
        let (name, key) = (value("name").unwrap(), quoted("key_variable"));
        writeln!(table, "| `{name}` | {aliases} | {wire} | {key} | {base} |").unwrap();
    }
    check_table("models.md", "providers", &table);
}

/// The sources of all crates, without their tests.
fn sources() -> String {
    fn collect(folder: &Path, text: &mut String) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && name != "tests" {
                collect(&path, text);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let source = fs::read_to_string(&path).unwrap();
                text.push_str(source.split("#[cfg(test)]\nmod ").next().unwrap());
            }
        }
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut text = String::new();
    for entry in fs::read_dir(crates).unwrap() {
        let path = entry.unwrap().path();
        let is_program =
            !["failpoint", "guarantees", "testkit"].iter().any(|dev| path.ends_with(dev));
        if is_program && path.join("src").is_dir() {
            collect(&path.join("src"), &mut text);
        }
    }
    text
}

/// Words of capital letters and underscores that stand between two marks.
fn names_between(text: &str, mark: char) -> BTreeSet<&str> {
    let is_name = |word: &&str| {
        word.len() > 3
            && word.contains('_')
            && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    text.split(mark).filter(is_name).collect()
}

#[test]
fn each_constant_on_the_page_of_limits_exists() {
    let (page, sources) = (fs::read_to_string(page_path("limits.md")).unwrap(), sources());
    let missing = |name: &&str| !sources.contains(&format!("const {name}:"));
    let missing: Vec<&str> = names_between(&page, '`').into_iter().filter(missing).collect();
    assert_eq!(missing, Vec::<&str>::new(), "docs/reference/limits.md");
}

#[test]
fn the_page_of_the_configuration_has_each_variable() {
    let (page, sources) = (fs::read_to_string(page_path("configuration.md")).unwrap(), sources());
    let shown = names_between(&page, '`');
    let own = names_between(&sources, '"').into_iter().filter(|name| name.starts_with("PROVOST_"));
    let missing: Vec<&str> = own.filter(|name| !shown.contains(name)).collect();
    assert_eq!(missing, Vec::<&str>::new(), "docs/reference/configuration.md lacks variables");
    let unknown = |name: &&&str| {
        let is_own = name.starts_with("PROVOST_") && !name.starts_with("PROVOST_SECRET_");
        is_own && !sources.contains(**name)
    };
    let unknown: Vec<&&str> = shown.iter().filter(unknown).collect();
    assert!(unknown.is_empty(), "no code reads {unknown:?}");
}

/// Table of the fields of a type.
fn fields<T: JsonSchema>() -> String {
    let schema = schema_for!(T);
    let schema = schema.as_value();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut table = "| field | value | default | meaning |\n|---|---|---|---|\n".to_owned();
    for (field, property) in schema["properties"].as_object().unwrap() {
        // The name and the namespace of a resource are in its metadata.
        if schema["properties"].get("namespace").is_some()
            && ["name", "namespace"].contains(&field.as_str())
            || schema["properties"].get("input_schema").is_some() && field == "name"
        {
            continue;
        }
        let value = value_of(schema, property);
        let default = match property.get("default") {
            _ if required.contains(&Value::from(field.as_str())) => "required".to_owned(),
            None | Some(Value::Null | Value::Object(_)) => String::new(),
            Some(Value::Array(items)) if items.is_empty() => String::new(),
            Some(Value::String(text)) if text.is_empty() => String::new(),
            Some(Value::String(text)) => format!("`{text}`"),
            Some(other) => format!("`{other}`"),
        };
        writeln!(table, "| `{field}` | {value} | {default} | {} |", sentence(property)).unwrap();
    }
    table
}

/// Description of a schema on one line, without the notation of Rust for missing values.
fn sentence(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace("`None` ", "If unset, ").replace('|', "\\|")
}

/// The values that a schema permits.
fn value_of(root: &Value, schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        let target = root.pointer(name.trim_start_matches('#')).unwrap();
        return value_of(root, target);
    }
    if let Some(several) = schema["anyOf"].as_array() {
        let inner = several.iter().find(|one| one["type"] != "null").unwrap();
        return value_of(root, inner);
    }
    if let Some(values) = schema["enum"].as_array() {
        let texts = values.iter().filter_map(Value::as_str).filter(|text| !text.is_empty());
        // A second spelling in lower case is left out.
        let all: Vec<&str> = texts.collect();
        let shown = all.iter().filter(|text| {
            text.chars().any(char::is_uppercase)
                || !all.iter().any(|other| other != *text && other.eq_ignore_ascii_case(text))
        });
        return shown.map(|text| format!("`{text}`")).collect::<Vec<_>>().join(", ");
    }
    if schema["pattern"].is_string() {
        return "duration".to_owned();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null").unwrap(),
        kind => kind,
    };
    match kind.as_str() {
        Some("array") => format!("list: {}", value_of(root, &schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => "map of strings".to_owned(),
        Some("object") => "block".to_owned(),
        Some("integer") => "number".to_owned(),
        Some(kind) => kind.to_owned(),
        None => "JSON".to_owned(),
    }
}
