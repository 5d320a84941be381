//! Declared tools.

mod check;
mod transport;

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::transport::{A2aSpec, CliSpec, GrpcSpec, HttpSpec, McpRef, ProcessLimits, WasmSpec};
use crate::recovery::EffectClass;
use crate::resource::HumanDuration;
use crate::text::string_enum::string_enum;

/// Default timeout of one attempt.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Default maximum delay between attempts.
const BACKOFF_MAX_DEFAULT: Duration = Duration::from_secs(30);
/// Maximum number of attempts.
const ATTEMPTS_MAX: u32 = 20;

string_enum! {
    /// Runtime of a tool.
    #[derive(Default, PartialOrd, Ord)]
    ToolType, "a tool type" {
        /// One HTTP request.
        #[default]
        Http = "http",
        /// An HTTP server that implements the tool contract.
        External = "external",
        /// A gRPC server that implements the tool contract.
        Grpc = "grpc",
        /// An HTTP server that responds later.
        WebhookCallback = "webhook-callback",
        /// A tool of an MCP server.
        Mcp = "mcp",
        /// A remote agent, over A2A.
        A2a = "a2a",
        /// A function of this program.
        Builtin = "builtin",
        /// A WASM module.
        Wasm = "wasm",
        /// A program with arguments.
        Cli = "cli",
    }
}

string_enum! {
    /// Risk level of a tool.
    #[derive(Default, PartialOrd, Ord)]
    RiskLevel, "a risk level" {
        /// Low risk.
        #[default]
        Low = "low",
        /// Medium risk.
        Medium = "medium",
        /// High risk.
        High = "high",
        /// Critical risk.
        Critical = "critical",
    }
}

string_enum! {
    /// Class of a tool's operations.
    #[derive(PartialOrd, Ord)]
    OperationClass, "an operation class" {
        /// Reads data.
        Read = "read",
        /// Changes data.
        Write = "write",
        /// Deletes data.
        Delete = "delete",
        /// Changes permissions.
        Admin = "admin",
    }
}

string_enum! {
    /// Isolation of a tool.
    #[derive(PartialOrd, Ord)]
    IsolationMode, "an isolation mode" {
        /// No isolation.
        None = "none",
        /// The operator's default for untrusted tools.
        Sandboxed = "sandboxed",
        /// A process with restricted rights.
        Process = "process",
        /// A WASM engine.
        Wasm = "wasm",
        /// A container.
        Container = "container",
    }
}

string_enum! {
    /// Randomization of delays between attempts.
    #[derive(Default)]
    ToolRetryJitter, "a jitter" {
        /// No randomization.
        #[default]
        None = "none",
        /// A random delay from zero to the full delay.
        Full = "full",
        /// Half of the delay plus a random part of the other half.
        Equal = "equal",
    }
}

string_enum! {
    /// Authentication of a call.
    #[derive(Default)]
    AuthProfile, "an auth profile" {
        /// `Authorization: Bearer <secret>`.
        #[default]
        Bearer = "bearer",
        /// A custom header.
        ApiKeyHeader = "api_key_header",
        /// `Authorization: Basic <secret>`.
        Basic = "basic",
        /// A token that is requested with a client id and a client secret.
        Oauth2ClientCredentials = "oauth2_client_credentials",
    }
}

string_enum! {
    /// HTTP method of a tool.
    #[derive(Default)]
    HttpMethod, "an HTTP method" {
        /// GET.
        Get = "GET" or "get",
        /// POST.
        #[default]
        Post = "POST" or "post",
        /// PUT.
        Put = "PUT" or "put",
        /// PATCH.
        Patch = "PATCH" or "patch",
        /// DELETE.
        Delete = "DELETE" or "delete",
        /// HEAD.
        Head = "HEAD" or "head",
    }
}

string_enum! {
    /// Encoding of an envelope over gRPC.
    #[derive(Default)]
    GrpcEncoding, "a gRPC encoding" {
        /// Protobuf.
        #[default]
        Protobuf = "protobuf",
        /// JSON.
        Json = "json",
    }
}

string_enum! {
    /// Files that a program can access.
    #[derive(Default)]
    CliWorkspace, "a workspace of a program" {
        /// No files.
        #[default]
        None = "none",
        /// The workspace of the conversation, which persists between calls.
        Conversation = "conversation",
    }
}

string_enum! {
    /// Output stream that contains the program's response.
    #[derive(Default)]
    CliOutput, "an output" {
        /// Standard output.
        #[default]
        Stdout = "stdout",
        /// Standard error.
        Stderr = "stderr",
        /// Both streams, in the order of writing.
        Both = "both",
    }
}

/// A tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolResource {
    /// Name of the tool.
    pub name: String,
    /// Runtime of the tool.
    #[serde(default, rename = "type")]
    pub kind: ToolType,
    /// A URL or `host:port`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    /// Description for the model.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// JSON Schema of the arguments.
    #[serde(default = "any_object")]
    pub input_schema: Value,
    /// Capability labels for policies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Classes of the tool's operations. Empty means write, or read for a pure tool of low or medium risk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operation_classes: Vec<OperationClass>,
    /// Risk level of the tool.
    #[serde(default)]
    pub risk_level: RiskLevel,
    /// Effect class: the consequence of repeating a call. The default is opaque.
    #[serde(default)]
    pub effect: EffectClass,
    /// Timeout, isolation and retries.
    #[serde(default)]
    pub runtime: RuntimeSpec,
    /// Authentication of calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<ToolAuth>,
    /// True if the endpoint may be in a private network. Loopback addresses also need the operator's permission.
    #[serde(default)]
    pub allow_private: bool,
    /// Request of an `http` tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpSpec>,
    /// Protocol options of a `grpc` tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcSpec>,
    /// Server and tool name of an `mcp` tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpRef>,
    /// Agent of an `a2a` tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a2a: Option<A2aSpec>,
    /// Program of a `cli` tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cli: Option<CliSpec>,
    /// Module of a `wasm` tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wasm: Option<WasmSpec>,
}

/// Timeout, isolation and retries of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RuntimeSpec {
    /// Timeout of one attempt.
    pub timeout: HumanDuration,
    /// Isolation mode. `None` depends on the risk level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation_mode: Option<IsolationMode>,
    /// Retries after transient failures.
    pub retry: RetrySpec,
}

/// Retries after transient failures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetrySpec {
    /// Maximum number of attempts, including the first.
    pub max_attempts: u32,
    /// First delay. Each further delay is twice as long.
    pub backoff: HumanDuration,
    /// Maximum delay.
    pub max_backoff: HumanDuration,
    /// Randomization of delays.
    pub jitter: ToolRetryJitter,
}

/// Authentication of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolAuth {
    /// Authentication profile.
    #[serde(default)]
    pub profile: AuthProfile,
    /// The secret: `name`, `name:key`, `namespace/name` or `namespace/name:key`.
    #[serde(rename = "secretRef", alias = "secret_ref")]
    pub secret_ref: String,
    /// Header of the profile `api_key_header`.
    #[serde(
        default,
        rename = "headerName",
        alias = "header_name",
        skip_serializing_if = "String::is_empty"
    )]
    pub header_name: String,
    /// URL of the token endpoint.
    #[serde(
        default,
        rename = "tokenURL",
        alias = "token_url",
        skip_serializing_if = "String::is_empty"
    )]
    pub token_url: String,
    /// Scopes of the requested token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

/// An invalid resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceError {
    /// Path of the value, such as `auth.headerName`.
    pub path: String,
    /// The problem.
    pub problem: String,
    /// The suggested fix.
    pub fix: String,
}

impl fmt::Display for ResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.path, self.problem, self.fix)
    }
}

impl std::error::Error for ResourceError {}

impl Default for RuntimeSpec {
    fn default() -> Self {
        Self {
            timeout: HumanDuration(TIMEOUT_DEFAULT),
            isolation_mode: None,
            retry: RetrySpec::default(),
        }
    }
}

impl Default for RetrySpec {
    fn default() -> Self {
        Self {
            max_attempts: 1,
            backoff: HumanDuration::default(),
            max_backoff: HumanDuration(BACKOFF_MAX_DEFAULT),
            jitter: ToolRetryJitter::None,
        }
    }
}

fn any_object() -> Value {
    json!({"type": "object"})
}

#[cfg(test)]
mod tests;
