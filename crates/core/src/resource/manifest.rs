//! The manifest format: version, kind, metadata and spec.
//!
//! Field names may be `snake_case` or `camelCase`. An unknown field is an error with its path, because a mistyped rule
//! must not silently disappear.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::text::{invalid_field, namespace, required_name};
use super::{
    AgentPolicy, AgentRole, AgentSpec, DeclaredAgent, HumanDuration, McpServerResource,
    ResourceError, ToolPermission, ToolResource,
};

/// The version of manifests.
pub const API_VERSION: &str = "provost.dev/v1";
/// Versions of other systems with the same meaning.
const SUPPORTED_API_VERSIONS: [&str; 2] = [API_VERSION, "orloj.dev/v1"];

/// Blocks of a spec whose keys may be camelCase. The keys of other blocks are user data.
const NESTED_BLOCKS: [&str; 9] = [
    "runtime",
    "retry",
    "operation_rules",
    "approvers",
    "tool_filter",
    "http",
    "grpc",
    "a2a",
    "mcp",
];

/// A tool and its namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamespacedTool {
    /// Namespace of the tool.
    pub namespace: String,
    /// The tool.
    pub tool: ToolResource,
}

/// A declared resource in its normal form.
#[derive(Debug, Clone, PartialEq)]
pub enum Resource {
    /// An agent.
    Agent(Box<DeclaredAgent>),
    /// An agent policy.
    AgentPolicy(AgentPolicy),
    /// A role.
    AgentRole(AgentRole),
    /// An MCP server.
    McpServer(McpServerResource),
    /// A tool.
    Tool(Box<NamespacedTool>),
    /// A tool permission.
    ToolPermission(ToolPermission),
}

/// The known kinds.
const KINDS: [&str; 6] =
    ["Agent", "AgentPolicy", "AgentRole", "McpServer", "Tool", "ToolPermission"];

impl Resource {
    /// Parses a manifest into the normal form of its resource. Fails with the path of the first problem.
    pub fn from_manifest(manifest: Value) -> Result<Self, ResourceError> {
        let Value::Object(mut manifest) = manifest else {
            return Err(invalid_field(
                "",
                "it is not a mapping",
                "write `kind`, `metadata` and `spec`",
            ));
        };
        version(manifest.remove("apiVersion").or_else(|| manifest.remove("api_version")))?;
        let kind = kind(manifest.remove("kind"))?;
        let (name, namespace) = metadata(manifest.remove("metadata"))?;
        let spec = match manifest.remove("spec") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(spec)) => spec,
            Some(_) => {
                return Err(invalid_field(
                    "spec",
                    "it is not a mapping",
                    "write the fields of the resource under it",
                ));
            }
        };
        // The status of a resource is written by a system, not by an operator.
        manifest.remove("status");
        if let Some(unknown) = manifest.keys().next() {
            let fix = "use `apiVersion`, `kind`, `metadata` and `spec`";
            return Err(invalid_field(unknown, "unknown field", fix));
        }
        for own in ["name", "namespace"] {
            if spec.contains_key(own) {
                let problem = "it belongs in the metadata";
                return Err(invalid_field(
                    &format!("spec.{own}"),
                    problem,
                    "move it to `metadata`",
                ));
            }
        }
        let mut spec = snake_case_keys(spec);
        spec.insert("name".to_owned(), Value::String(name));
        Self::of(kind, spec, namespace)
            .map_err(|error| at_manifest_path(error, &["name", "namespace"]))
    }

    /// Parses the spec of a kind.
    fn of(
        kind: &str,
        mut spec: Map<String, Value>,
        namespace: String,
    ) -> Result<Self, ResourceError> {
        if kind == "Tool" {
            let tool: ToolResource = parse(mcp_reference(spec))?;
            let tool = tool.normalized()?;
            return Ok(Self::Tool(Box::new(NamespacedTool { namespace, tool })));
        }
        spec.insert("namespace".to_owned(), Value::String(namespace));
        Ok(match kind {
            "Agent" => Self::Agent(Box::new(declared_agent(spec)?.normalized()?)),
            "AgentPolicy" => Self::AgentPolicy(parse::<AgentPolicy>(spec)?.normalized()?),
            "AgentRole" => Self::AgentRole(parse::<AgentRole>(spec)?.normalized()?),
            "McpServer" => Self::McpServer(parse::<McpServerResource>(spec)?.normalized()?),
            _ => Self::ToolPermission(parse::<ToolPermission>(spec)?.normalized()?),
        })
    }

    /// Returns the kind of the resource.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Agent(_) => "Agent",
            Self::AgentPolicy(_) => "AgentPolicy",
            Self::AgentRole(_) => "AgentRole",
            Self::McpServer(_) => "McpServer",
            Self::Tool(_) => "Tool",
            Self::ToolPermission(_) => "ToolPermission",
        }
    }

    /// Returns the namespace of the resource.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Agent(agent) => &agent.namespace,
            Self::AgentPolicy(policy) => &policy.namespace,
            Self::AgentRole(role) => &role.namespace,
            Self::McpServer(server) => &server.namespace,
            Self::Tool(declared) => &declared.namespace,
            Self::ToolPermission(permission) => &permission.namespace,
        }
    }

    /// Returns the name of the resource, unique per kind and namespace.
    pub fn name(&self) -> &str {
        match self {
            Self::Agent(agent) => &agent.name,
            Self::AgentPolicy(policy) => &policy.name,
            Self::AgentRole(role) => &role.name,
            Self::McpServer(server) => &server.name,
            Self::Tool(declared) => &declared.tool.name,
            Self::ToolPermission(permission) => &permission.name,
        }
    }
}

/// Fails if `apiVersion` is given and not supported.
fn version(given: Option<Value>) -> Result<(), ResourceError> {
    match given {
        None => Ok(()),
        Some(Value::String(text)) if SUPPORTED_API_VERSIONS.contains(&text.as_str()) => Ok(()),
        Some(other) => Err(invalid_field(
            "apiVersion",
            format!("{other} is not supported"),
            format!("use `{API_VERSION}`"),
        )),
    }
}

/// Returns the kind with this name, ignoring case. Fails if it is missing or unknown.
fn kind(given: Option<Value>) -> Result<&'static str, ResourceError> {
    let fix = || format!("use one of {}", KINDS.join(", "));
    let Some(Value::String(text)) = given else {
        return Err(invalid_field("kind", "it is missing", fix()));
    };
    let found = KINDS.into_iter().find(|kind| kind.eq_ignore_ascii_case(text.trim()));
    found.ok_or_else(|| invalid_field("kind", format!("there is no kind `{text}`"), fix()))
}

/// Returns the name and the namespace of the metadata. Fails for a missing name or an unknown field.
fn metadata(given: Option<Value>) -> Result<(String, String), ResourceError> {
    let Some(Value::Object(mut given)) = given else {
        return Err(invalid_field("metadata", "it is missing", "write `name` under it"));
    };
    let mut text = |key: &str| match given.remove(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(invalid_field(
            &format!("metadata.{key}"),
            "it is not a string",
            "write it in quotes",
        )),
    };
    let (name, namespace_text) = (text("name")?, text("namespace")?);
    let name = required_name(&name, "name the resource")
        .map_err(|error| with_path_prefix("metadata", error))?;
    for key in ["labels", "annotations"] {
        let texts =
            |value: &Value| value.as_object().is_some_and(|map| map.values().all(Value::is_string));
        if given.remove(key).is_some_and(|value| !value.is_null() && !texts(&value)) {
            let path = format!("metadata.{key}");
            return Err(invalid_field(
                &path,
                "it is not a mapping of strings",
                "write `key: \"value\"`",
            ));
        }
    }
    // Counters are written by a system, not by an operator.
    for key in ["resourceVersion", "generation", "createdAt"] {
        given.remove(key);
    }
    if let Some(unknown) = given.keys().next() {
        let fix = "use `name`, `namespace`, `labels` and `annotations`";
        return Err(invalid_field(&format!("metadata.{unknown}"), "unknown field", fix));
    }
    Ok((name, namespace(&namespace_text)))
}

/// Parses a spec. Fails with the path of the problem.
fn parse<T: DeserializeOwned>(spec: Map<String, Value>) -> Result<T, ResourceError> {
    serde_path_to_error::deserialize(Value::Object(spec)).map_err(|error| {
        let path = match error.path().to_string() {
            path if path == "." => String::new(),
            path => path,
        };
        invalid_field(&path, error.inner().to_string(), "correct it")
    })
}

/// Converts the path of an error to a path in the manifest: spec fields are below `spec`, the name is in the metadata.
fn at_manifest_path(error: ResourceError, metadata_fields: &[&str]) -> ResourceError {
    let block = if metadata_fields.contains(&error.path.as_str()) { "metadata" } else { "spec" };
    with_path_prefix(block, error)
}

/// Prepends a block to the path of an error.
fn with_path_prefix(block: &str, error: ResourceError) -> ResourceError {
    let path = match error.path.as_str() {
        "" => block.to_owned(),
        path => format!("{block}.{path}"),
    };
    ResourceError { path, ..error }
}

/// Reads an agent. A manifest has short names for some fields of the definition, which it may use instead.
fn declared_agent(mut spec: Map<String, Value>) -> Result<DeclaredAgent, ResourceError> {
    let mut text = |key: &str| match spec.remove(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(invalid_field(key, "it is not a string", "write it in quotes")),
    };
    let (name, namespace, title) = (text("name")?, text("namespace")?, text("title")?);
    for (short, field) in [("model_ref", "model"), ("prompt", "system_prompt")] {
        if let Some(value) = spec.remove(short) {
            spec.entry(field).or_insert(value);
        }
    }
    if let Some(Value::Array(_)) = spec.get("tools") {
        let names = spec.remove("tools").unwrap_or_default();
        spec.entry("declared_tools").or_insert(names);
    }
    let interactive = match spec.remove("interactive") {
        None | Some(Value::Null) => true,
        Some(Value::Bool(interactive)) => interactive,
        Some(_) => {
            return Err(invalid_field("interactive", "it is not a boolean", "use true or false"));
        }
    };
    if let Some(timeout) = spec.remove("timeout").filter(|timeout| !timeout.is_null()) {
        spec.insert("timeout_ms".to_owned(), timeout_ms(timeout)?);
    }
    let mut spec: AgentSpec = parse(spec)?;
    // A mistyped field must not silently disappear.
    if let Some(unknown) = spec.extensions.keys().next() {
        let fix = "correct its name; docs/reference/manifests.md lists the fields";
        return Err(invalid_field(unknown, "unknown field", fix));
    }
    spec.policy.interactive.get_or_insert(interactive);
    Ok(DeclaredAgent { name, namespace, title, spec })
}

/// Converts a duration such as `30s` to milliseconds.
fn timeout_ms(timeout: Value) -> Result<Value, ResourceError> {
    let invalid =
        |problem: String| invalid_field("timeout", problem, "use a duration such as `30s`");
    let HumanDuration(timeout) =
        serde_json::from_value(timeout).map_err(|error| invalid(error.to_string()))?;
    if timeout.is_zero() {
        return Err(invalid_field("timeout", "it is zero", "use at least `1s`, or omit it"));
    }
    let millis = u64::try_from(timeout.as_millis()).map_err(|error| invalid(error.to_string()))?;
    Ok(Value::from(millis))
}

/// Moves `serverRef` and `toolName`, an alternative notation, into the block `mcp`.
fn mcp_reference(mut spec: Map<String, Value>) -> Map<String, Value> {
    let server = spec.remove("mcp_server_ref");
    let tool = spec.remove("mcp_tool_name");
    if server.is_none() && tool.is_none() {
        return spec;
    }
    if let Value::Object(block) = spec.entry("mcp").or_insert_with(|| Value::Object(Map::new())) {
        for (key, value) in [("server", server), ("tool", tool)] {
            if let Some(value) = value {
                block.entry(key).or_insert(value);
            }
        }
    }
    spec
}

/// Converts the keys of a spec and of its known blocks to snake_case.
fn snake_case_keys(block: Map<String, Value>) -> Map<String, Value> {
    let convert = |value: Value| match value {
        Value::Object(inner) => Value::Object(snake_case_keys(inner)),
        Value::Array(items) => Value::Array(
            items
                .into_iter()
                .map(|item| match item {
                    Value::Object(inner) => Value::Object(snake_case_keys(inner)),
                    other => other,
                })
                .collect(),
        ),
        other => other,
    };
    let renamed = block.into_iter().map(|(key, value)| {
        let key = snake_case(&key);
        let value = if NESTED_BLOCKS.contains(&key.as_str()) { convert(value) } else { value };
        (key, value)
    });
    renamed.collect()
}

/// Converts a camelCase key to snake_case.
fn snake_case(key: &str) -> String {
    let mut text = String::with_capacity(key.len() + 4);
    for letter in key.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() && !text.ends_with('_') {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests;
