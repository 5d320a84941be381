//! An MCP server whose tools agents may get.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::{default_namespace, invalid_field, namespace, required_name, trimmed_distinct};
use super::{IsolationMode, ProcessLimits, ResourceError, ToolAuth};
use crate::text::string_enum::string_enum;

string_enum! {
    /// How an MCP server is reached.
    McpTransport, "an MCP transport" {
        /// A program of this machine, over pipes.
        Stdio = "stdio",
        /// An address, over streamable HTTP.
        Http = "http",
    }
}

/// A variable of a server's environment: a text, or a secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct McpVariable {
    /// Its name.
    pub name: String,
    /// Its value, which is no secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The secret that is its value.
    #[serde(rename = "secretRef", alias = "secret_ref", skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<String>,
}

/// Which of a server's tools are used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct McpFilter {
    /// Their names at the server; nothing named means all.
    pub include: Vec<String>,
}

/// The sandbox of a program that is a server. It can be no more than the operator gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpIsolation {
    /// What it runs in. Where that is not there, it does not run.
    pub mode: IsolationMode,
    /// The image of its container, in place of the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// A directory that it sees, by its whole path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// True if it may change what is in that directory.
    #[serde(default)]
    pub writable: bool,
    /// Hosts that it may reach: `api.example.com` or `*.example.com`. None means no network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// How much it may use; never more than the operator gives.
    #[serde(default)]
    pub resources: ProcessLimits,
}

/// An MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpServerResource {
    /// Its name.
    pub name: String,
    /// Where it counts, and nowhere else.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// How it is reached.
    pub transport: McpTransport,
    /// The program of `stdio`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Its environment, all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<McpVariable>,
    /// The address of `http`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    /// How requests to the address are authenticated: `bearer`, `basic` or `api_key_header`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<ToolAuth>,
    /// The sandbox of the program of `stdio`; without one it runs as this program does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<McpIsolation>,
    /// Which of its tools are used.
    #[serde(default)]
    pub tool_filter: McpFilter,
    /// May the address be in the private network? Only if the operator opened that.
    #[serde(default)]
    pub allow_private: bool,
}

impl McpServerResource {
    /// The normal form: trimmed, with what its transport needs and nothing that belongs to another.
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
