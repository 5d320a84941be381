//! A tool as an operator declares it.

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

/// How long one attempt may take if nothing is said.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// The longest pause between attempts if nothing is said.
const BACKOFF_MAX_DEFAULT: Duration = Duration::from_secs(30);
/// How often a call may be tried at most.
const ATTEMPTS_MAX: u32 = 20;

string_enum! {
    /// Where a tool lives.
    #[derive(Default, PartialOrd, Ord)]
    ToolType, "a tool type" {
        /// Behind one HTTP request.
        #[default]
        Http = "http",
        /// Behind an HTTP server that speaks the contract.
        External = "external",
        /// Behind a gRPC server that speaks the contract.
        Grpc = "grpc",
        /// Behind an HTTP server that answers later.
        WebhookCallback = "webhook-callback",
        /// At an MCP server.
        Mcp = "mcp",
        /// Another agent, somewhere else.
        A2a = "a2a",
        /// In this program.
        Builtin = "builtin",
        /// A WASM module.
        Wasm = "wasm",
        /// A program with arguments.
        Cli = "cli",
    }
}

string_enum! {
    /// How much harm a tool can do.
    #[derive(Default, PartialOrd, Ord)]
    RiskLevel, "a risk level" {
        /// Little.
        #[default]
        Low = "low",
        /// Some.
        Medium = "medium",
        /// Much.
        High = "high",
        /// All there is.
        Critical = "critical",
    }
}

string_enum! {
    /// What a tool does to the world.
    #[derive(PartialOrd, Ord)]
    OperationClass, "an operation class" {
        /// It looks.
        Read = "read",
        /// It changes.
        Write = "write",
        /// It takes away.
        Delete = "delete",
        /// It changes who may do what.
        Admin = "admin",
    }
}

string_enum! {
    /// What a tool runs in.
    #[derive(PartialOrd, Ord)]
    IsolationMode, "an isolation mode" {
        /// Nothing keeps it apart.
        None = "none",
        /// Whatever the operator uses for what is not trusted.
        Sandboxed = "sandboxed",
        /// A process with fewer rights.
        Process = "process",
        /// A WASM machine.
        Wasm = "wasm",
        /// A container.
        Container = "container",
    }
}

string_enum! {
    /// How pauses between attempts are spread.
    #[derive(Default)]
    ToolRetryJitter, "a jitter" {
        /// Not at all.
        #[default]
        None = "none",
        /// Anywhere between nothing and the whole pause.
        Full = "full",
        /// Half of the pause for certain, the other half at random.
        Equal = "equal",
    }
}

string_enum! {
    /// How a call is authenticated.
    #[derive(Default)]
    AuthProfile, "an auth profile" {
        /// `Authorization: Bearer <secret>`.
        #[default]
        Bearer = "bearer",
        /// A header of its own.
        ApiKeyHeader = "api_key_header",
        /// `Authorization: Basic <secret>`.
        Basic = "basic",
        /// A token that is fetched with a client id and a client secret.
        Oauth2ClientCredentials = "oauth2_client_credentials",
    }
}

string_enum! {
    /// How an HTTP tool is called.
    #[derive(Default)]
    HttpMethod, "an HTTP method" {
        /// Reads.
        Get = "GET" or "get",
        /// Sends.
        #[default]
        Post = "POST" or "post",
        /// Puts in place.
        Put = "PUT" or "put",
        /// Changes in part.
        Patch = "PATCH" or "patch",
        /// Takes away.
        Delete = "DELETE" or "delete",
        /// Asks for headers alone.
        Head = "HEAD" or "head",
    }
}

string_enum! {
    /// How an envelope travels over gRPC.
    #[derive(Default)]
    GrpcEncoding, "a gRPC encoding" {
        /// As protobuf.
        #[default]
        Protobuf = "protobuf",
        /// As JSON.
        Json = "json",
    }
}

string_enum! {
    /// The files that a program works on.
    #[derive(Default)]
    CliWorkspace, "a workspace of a program" {
        /// None.
        #[default]
        None = "none",
        /// Those of the conversation that the call belongs to; they stay from call to call.
        Conversation = "conversation",
    }
}

string_enum! {
    /// Which output of a program is its answer.
    #[derive(Default)]
    CliOutput, "an output" {
        /// Standard output.
        #[default]
        Stdout = "stdout",
        /// Standard error.
        Stderr = "stderr",
        /// Both, as they come.
        Both = "both",
    }
}

/// A tool as an operator declares it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolResource {
    /// Its name.
    pub name: String,
    /// Where it lives.
    #[serde(default, rename = "type")]
    pub kind: ToolType,
    /// A URL, or `host:port`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    /// What the model is told.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What the model may send.
    #[serde(default = "any_object")]
    pub input_schema: Value,
    /// Labels for policies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// What it does to the world; if nothing is said it writes, unless it is pure and of little risk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operation_classes: Vec<OperationClass>,
    /// How much harm it can do.
    #[serde(default)]
    pub risk_level: RiskLevel,
    /// What repeating a call would do; nothing is known of it if nothing is said.
    #[serde(default)]
    pub effect: EffectClass,
    /// How it is run.
    #[serde(default)]
    pub runtime: RuntimeSpec,
    /// How it is authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<ToolAuth>,
    /// May it be in the private network? Never in this machine, unless the operator opened that.
    #[serde(default)]
    pub allow_private: bool,
    /// The request of an `http` tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpSpec>,
    /// The wire of a `grpc` tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcSpec>,
    /// The server and the tool of an `mcp` tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpRef>,
    /// The agent of an `a2a` tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a2a: Option<A2aSpec>,
    /// The program of a `cli` tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cli: Option<CliSpec>,
    /// The module of a `wasm` tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wasm: Option<WasmSpec>,
}

/// How a tool is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RuntimeSpec {
    /// How long one attempt may take.
    pub timeout: HumanDuration,
    /// What it runs in; by its risk if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation_mode: Option<IsolationMode>,
    /// What is done after a failure that may pass.
    pub retry: RetrySpec,
}

/// What is done after a failure that may pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetrySpec {
    /// How often it is tried in all.
    pub max_attempts: u32,
    /// The first pause; each further one is twice as long.
    pub backoff: HumanDuration,
    /// The longest pause.
    pub max_backoff: HumanDuration,
    /// How pauses are spread.
    pub jitter: ToolRetryJitter,
}

/// How a tool is authenticated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolAuth {
    /// The way.
    #[serde(default)]
    pub profile: AuthProfile,
    /// The secret: `name`, `name:key`, `namespace/name` or `namespace/name:key`.
    #[serde(rename = "secretRef", alias = "secret_ref")]
    pub secret_ref: String,
    /// The header of `api_key_header`.
    #[serde(
        default,
        rename = "headerName",
        alias = "header_name",
        skip_serializing_if = "String::is_empty"
    )]
    pub header_name: String,
    /// Where a token is fetched.
    #[serde(
        default,
        rename = "tokenURL",
        alias = "token_url",
        skip_serializing_if = "String::is_empty"
    )]
    pub token_url: String,
    /// What the token shall be good for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

/// Why a resource is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceError {
    /// Where, such as `auth.headerName`.
    pub path: String,
    /// What is wrong.
    pub problem: String,
    /// What to do.
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
