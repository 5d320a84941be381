//! Where a tool of each type is, and how it is asked.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CliOutput, CliWorkspace, GrpcEncoding, HttpMethod};
use crate::resource::HumanDuration;

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
    pub poll_interval: Option<HumanDuration>,
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
    /// The image of its container, in place of the operator's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The files that it works on.
    pub workspace: CliWorkspace,
    /// How much it may use; never more than the operator gives.
    pub resources: ProcessLimits,
}

/// How much a sandboxed program may use. What is not said is what the operator gives, and never more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessLimits {
    /// Bytes of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Share of the processors, in percent of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<u32>,
    /// Processes and threads at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u32>,
}

/// Bytes of memory that a module may have if nothing is said.
const WASM_MEMORY_BYTES_DEFAULT: u64 = 64 << 20;
/// What a module may use up in one call if nothing is said: about as many instructions.
const WASM_FUEL_DEFAULT: u64 = 10_000_000_000;

/// The module of a `wasm` tool, and what it may have. It has nothing of this machine but what stands here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WasmSpec {
    /// A file below the operator's directory of modules, an `https://` address, or `blob:` and the SHA-256 of a module that is
    /// kept here.
    pub module: String,
    /// The SHA-256 of the module in hex. An address needs one; wherever it stands, another module does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The function that is called; `_start` or else `run` if nothing is said.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub entrypoint: String,
    /// Bytes of all its memories together.
    pub max_memory_bytes: u64,
    /// What one call may use up: about as many instructions. With 0 they are not counted: the module runs faster, and its time
    /// is what bounds it.
    pub fuel: u64,
    /// True if it may use WASI: its standard streams, clocks, chance, arguments and variables. There are never any files.
    pub enable_wasi: bool,
    /// Its arguments, as a program has them.
    pub args: Vec<String>,
    /// Its variables; nothing of ours is among them.
    pub env: BTreeMap<String, String>,
    /// Hosts that it may ask over HTTP: `api.example.com`, `*.example.com`, `api.example.com:8443`.
    pub hosts: Vec<String>,
    /// True if it may keep values under keys of its own.
    pub kv: bool,
    /// True if it may say how far it is.
    pub log: bool,
}

impl WasmSpec {
    /// What one call may use up; nothing where that is not counted.
    pub fn fuel_limit(&self) -> Option<u64> {
        (self.fuel > 0).then_some(self.fuel)
    }
}

impl Default for WasmSpec {
    fn default() -> Self {
        Self {
            module: String::new(),
            sha256: None,
            entrypoint: String::new(),
            max_memory_bytes: WASM_MEMORY_BYTES_DEFAULT,
            fuel: WASM_FUEL_DEFAULT,
            enable_wasi: true,
            args: Vec::new(),
            env: BTreeMap::new(),
            hosts: Vec::new(),
            kv: false,
            log: false,
        }
    }
}
