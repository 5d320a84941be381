//! A tool as an operator declares it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::resource::Span;
use crate::work::EffectClass;
use crate::work::word::words;

/// How long one attempt may take if nothing is said.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// The longest pause between attempts if nothing is said.
const BACKOFF_MAX_DEFAULT: Duration = Duration::from_secs(30);
/// How often a call may be tried at most.
const ATTEMPTS_MAX: u32 = 20;

words! {
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

words! {
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

words! {
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

words! {
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

words! {
    /// How pauses between attempts are spread.
    #[derive(Default)]
    Jitter, "a jitter" {
        /// Not at all.
        #[default]
        None = "none",
        /// Anywhere between nothing and the whole pause.
        Full = "full",
        /// Half of the pause for certain, the other half at random.
        Equal = "equal",
    }
}

words! {
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

words! {
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

words! {
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

words! {
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
}

/// How a tool is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RuntimeSpec {
    /// How long one attempt may take.
    pub timeout: Span,
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
    pub backoff: Span,
    /// The longest pause.
    pub max_backoff: Span,
    /// How pauses are spread.
    pub jitter: Jitter,
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

/// The request of an `http` tool. Texts are templates over the arguments: `/users/{{ id }}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSpec {
    /// The method.
    pub method: HttpMethod,
    /// Headers; the value is a template.
    pub headers: BTreeMap<String, String>,
    /// Query parameters; the value is a template; an empty result leaves the parameter out.
    pub query: BTreeMap<String, String>,
    /// The body as a template; without one the arguments are sent as JSON where the method has a body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The header that carries our effect key, if the service knows repeats by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_header: Option<String>,
    /// True if the answer is read as a response envelope of the contract.
    pub envelope: bool,
}

/// The wire of a `grpc` tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GrpcSpec {
    /// How the envelope travels.
    pub encoding: GrpcEncoding,
    /// Without TLS; for servers on this machine or in a mesh.
    pub plaintext: bool,
}

/// The server and the tool of an `mcp` tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpRef {
    /// The server's name.
    pub server: String,
    /// The tool's name at the server.
    pub tool: String,
}

/// The agent of an `a2a` tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct A2aSpec {
    /// Where its card is, if not at the usual place under the endpoint.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub card_path: String,
    /// How long to wait between looks at a task that is not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_interval: Option<Span>,
}

/// The program of a `cli` tool. No shell is between: each argument is one argument, whatever is in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CliSpec {
    /// The program, as the operator's list of commands has it.
    pub command: String,
    /// Its arguments, each a template over the arguments of the call. A value that begins with `-` is refused where a template
    /// begins with it, unless `--` stands before.
    pub args: Vec<String>,
    /// True if it reads the arguments of the call as JSON from its standard input.
    pub stdin_from_input: bool,
    /// True if it reads a request envelope of the contract and answers with a response envelope.
    pub envelope: bool,
    /// Which output is its answer.
    pub output: CliOutput,
    /// Where it starts, relative to the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// Variables of its environment; nothing of ours is in it.
    pub env: BTreeMap<String, String>,
    /// Hosts that it may reach: `api.example.com` or `*.example.com`. None means no network.
    pub hosts: Vec<String>,
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
        Self { timeout: Span(TIMEOUT_DEFAULT), isolation_mode: None, retry: RetrySpec::default() }
    }
}

impl Default for RetrySpec {
    fn default() -> Self {
        Self {
            max_attempts: 1,
            backoff: Span::default(),
            max_backoff: Span(BACKOFF_MAX_DEFAULT),
            jitter: Jitter::None,
        }
    }
}

fn any_object() -> Value {
    json!({"type": "object"})
}

impl ToolResource {
    /// A tool with nothing but defaults.
    pub fn new(name: impl Into<String>, kind: ToolType, endpoint: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind,
            endpoint: endpoint.into(),
            description: String::new(),
            input_schema: any_object(),
            capabilities: Vec::new(),
            operation_classes: Vec::new(),
            risk_level: RiskLevel::Low,
            effect: EffectClass::Opaque,
            runtime: RuntimeSpec::default(),
            auth: None,
            allow_private: false,
            http: None,
            grpc: None,
            mcp: None,
            a2a: None,
            cli: None,
        }
    }

    /// What it does to the world: as declared, else by its risk and by what repeating it does.
    pub fn operations(&self) -> Vec<OperationClass> {
        if !self.operation_classes.is_empty() {
            return self.operation_classes.clone();
        }
        // A tool of which nothing is known is one that writes: only then does silence deny it.
        match (self.risk_level, self.effect) {
            (RiskLevel::Low | RiskLevel::Medium, EffectClass::Pure) => vec![OperationClass::Read],
            _ => vec![OperationClass::Write],
        }
    }

    /// What it runs in: as declared, else by its risk.
    pub fn isolation(&self) -> IsolationMode {
        let by_risk = match (self.kind, self.risk_level) {
            // A program is as dangerous as whoever wrote it, whatever is said of its risk.
            (ToolType::Cli, _) | (_, RiskLevel::High | RiskLevel::Critical) => {
                IsolationMode::Sandboxed
            }
            (_, RiskLevel::Low | RiskLevel::Medium) => IsolationMode::None,
        };
        self.runtime.isolation_mode.unwrap_or(by_risk)
    }

    /// The normal form: trimmed, labels in lower case and once, what must be there is there.
    pub fn normalised(mut self) -> Result<Self, ResourceError> {
        self.name = self.name.trim().to_owned();
        self.endpoint = self.endpoint.trim().to_owned();
        self.capabilities = crate::contract::labels(&self.capabilities);
        self.operation_classes.sort_unstable();
        self.operation_classes.dedup();
        if self.name.is_empty() {
            return refused("name", "it is missing", "give the tool a name");
        }
        if !self.input_schema.is_object() {
            return refused("input_schema", "it is no JSON object", "use a JSON Schema object");
        }
        let needs_endpoint = matches!(
            self.kind,
            ToolType::Http
                | ToolType::External
                | ToolType::Grpc
                | ToolType::WebhookCallback
                | ToolType::A2a
        );
        if needs_endpoint && self.endpoint.is_empty() {
            return refused("endpoint", "it is missing", "say where the tool is");
        }
        if self.kind == ToolType::Mcp && self.mcp.is_none() {
            return refused("mcp", "it is missing", "name the server and its tool");
        }
        if self.kind == ToolType::Cli && self.cli.as_ref().is_none_or(|cli| cli.command.is_empty())
        {
            return refused("cli.command", "it is missing", "name the program");
        }
        self.check_blocks()?;
        let retry = &self.runtime.retry;
        if retry.max_attempts == 0 || retry.max_attempts > ATTEMPTS_MAX {
            return refused(
                "runtime.retry.max_attempts",
                "it is not between 1 and 20",
                "use 1 to 20",
            );
        }
        if self.runtime.timeout.0.is_zero() {
            return refused("runtime.timeout", "it is zero", "use at least `1ms`");
        }
        self.auth = self.auth.take().map(ToolAuth::normalised).transpose()?;
        Ok(self)
    }

    fn check_blocks(&self) -> Result<(), ResourceError> {
        for (path, there, kind) in [
            ("http", self.http.is_some(), ToolType::Http),
            ("grpc", self.grpc.is_some(), ToolType::Grpc),
            ("mcp", self.mcp.is_some(), ToolType::Mcp),
            ("a2a", self.a2a.is_some(), ToolType::A2a),
            ("cli", self.cli.is_some(), ToolType::Cli),
        ] {
            if there && self.kind != kind {
                let problem = format!("it is for tools of type `{kind}`, this is `{}`", self.kind);
                return refused(path, problem, "remove it or change `type`");
            }
        }
        Ok(())
    }
}

impl ToolAuth {
    pub(super) fn normalised(mut self) -> Result<Self, ResourceError> {
        self.secret_ref = self.secret_ref.trim().to_owned();
        self.scopes = self
            .scopes
            .iter()
            .map(|scope| scope.trim().to_owned())
            .filter(|scope| !scope.is_empty())
            .collect();
        if self.secret_ref.is_empty() {
            return refused("auth.secretRef", "it is missing", "name the secret to use");
        }
        match self.profile {
            AuthProfile::ApiKeyHeader if self.header_name.trim().is_empty() => {
                refused("auth.headerName", "it is missing", "name the header that takes the key")
            }
            AuthProfile::Oauth2ClientCredentials if self.token_url.trim().is_empty() => {
                refused("auth.tokenURL", "it is missing", "say where tokens are fetched")
            }
            _ => Ok(self),
        }
    }
}

fn refused<T>(
    path: &str,
    problem: impl Into<String>,
    fix: impl Into<String>,
) -> Result<T, ResourceError> {
    Err(ResourceError { path: path.to_owned(), problem: problem.into(), fix: fix.into() })
}

#[cfg(test)]
mod tests;
