//! Declared MCP servers, whose tools agents can use.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::{default_namespace, invalid_field, namespace, required_name, trimmed_distinct};
use super::{IsolationMode, ProcessLimits, ResourceError, ToolAuth};
use crate::text::string_enum::string_enum;

string_enum! {
    /// Transport of an MCP server.
    McpTransport, "an MCP transport" {
        /// A local program, over pipes.
        Stdio = "stdio",
        /// A URL, over streamable HTTP.
        Http = "http",
    }
}

/// An environment variable of a server, with a text or a secret as its value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct McpVariable {
    /// Name of the variable.
    pub name: String,
    /// Public value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Secret that contains the value.
    #[serde(rename = "secretRef", alias = "secret_ref", skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<String>,
}

/// Selection of a server's tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct McpFilter {
    /// Tool names at the server. Empty means all tools.
    pub include: Vec<String>,
}

/// Sandbox of a server program. It cannot exceed the operator's limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpIsolation {
    /// Isolation mode. If it is not available, the server does not start.
    pub mode: IsolationMode,
    /// Container image. `None` uses the operator's image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Absolute path of a directory that the server can access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// True if the server may write to that directory.
    #[serde(default)]
    pub writable: bool,
    /// Reachable hosts, such as `api.example.com` or `*.example.com`. Empty means no network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Resource limits, at most those of the operator.
    #[serde(default)]
    pub resources: ProcessLimits,
}

/// An MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpServerResource {
    /// Name of the server.
    pub name: String,
    /// Namespace of the server.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Transport of the server.
    pub transport: McpTransport,
    /// Program, for `stdio`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// Arguments of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Complete environment of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<McpVariable>,
    /// URL, for `http`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    /// Authentication of requests to the URL: `bearer`, `basic` or `api_key_header`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<ToolAuth>,
    /// Sandbox of the program. `None` runs it without a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<McpIsolation>,
    /// Selection of the server's tools.
    #[serde(default)]
    pub tool_filter: McpFilter,
    /// True if the URL may be in a private network. The operator must permit that too.
    #[serde(default)]
    pub allow_private: bool,
}

impl McpServerResource {
    /// Returns the normal form: trimmed, with the fields of its transport only.
    pub fn normalized(mut self) -> Result<Self, ResourceError> {
        self.name = required_name(&self.name, "give the server a name")?;
        self.namespace = namespace(&self.namespace);
        self.command = self.command.trim().to_owned();
        self.endpoint = self.endpoint.trim().to_owned();
        self.tool_filter.include = trimmed_distinct(&self.tool_filter.include);
        self.auth = self.auth.take().map(ToolAuth::normalized).transpose()?;
        match self.transport {
            McpTransport::Stdio if self.command.is_empty() => {
                Err(invalid_field("command", "it is missing", "name the program to start"))
            }
            McpTransport::Http if self.endpoint.is_empty() => {
                Err(invalid_field("endpoint", "it is missing", "give the address of the server"))
            }
            McpTransport::Stdio if !self.endpoint.is_empty() || self.auth.is_some() => {
                Err(invalid_field(
                    "transport",
                    "a stdio server has no endpoint and no auth",
                    "use `transport: http`, or give secrets to the program under `env`",
                ))
            }
            McpTransport::Http if self.isolation.is_some() => Err(invalid_field(
                "isolation",
                "an HTTP server cannot run in a sandbox",
                "use `transport: stdio`, or remove it",
            )),
            McpTransport::Http if !self.command.is_empty() || !self.env.is_empty() => {
                Err(invalid_field(
                    "transport",
                    "an HTTP server has no command and no env",
                    "use `transport: stdio`, or remove them",
                ))
            }
            McpTransport::Stdio | McpTransport::Http => self.check_variables(),
        }
    }

    /// Fails if the workspace path is not absolute, or if a variable has an invalid name, or not exactly one of value
    /// and secret.
    fn check_variables(self) -> Result<Self, ResourceError> {
        let dir = self.isolation.as_ref().and_then(|isolation| isolation.workspace.as_deref());
        if dir.is_some_and(|dir| !dir.starts_with('/')) {
            let problem = "it is not an absolute path";
            return Err(invalid_field("isolation.workspace", problem, "begin it with `/`"));
        }
        for (place, variable) in self.env.iter().enumerate() {
            let path = format!("env[{place}]");
            let is_name = !variable.name.is_empty()
                && !variable.name.contains(['=', '\0'])
                && variable.name.trim() == variable.name;
            if !is_name {
                return Err(invalid_field(
                    &path,
                    "its name is not valid",
                    "use letters, digits and `_`",
                ));
            }
            if variable.value.is_some() == variable.secret_ref.is_some() {
                let problem = "it needs exactly one of `value` and `secretRef`";
                return Err(invalid_field(&path, problem, "remove one of them"));
            }
        }
        Ok(self)
    }
}
