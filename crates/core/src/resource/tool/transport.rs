//! Endpoints and requests of declared tools, per type.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CliOutput, CliWorkspace, GrpcEncoding, HttpMethod};
use crate::resource::HumanDuration;

/// Request of an `http` tool. Texts are templates over the arguments, such as `/users/{{ id }}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSpec {
    /// HTTP method.
    pub method: HttpMethod,
    /// Headers. Values are templates.
    pub headers: BTreeMap<String, String>,
    /// Query parameters. Values are templates; a parameter with an empty result is omitted.
    pub query: BTreeMap<String, String>,
    /// Body template. `None` sends the arguments as JSON if the method has a body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Header for the effect key, if the service supports idempotency keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_header: Option<String>,
    /// True if the response is a response envelope of the tool contract.
    pub envelope: bool,
}

/// Protocol options of a `grpc` tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GrpcSpec {
    /// Encoding of the envelope.
    pub encoding: GrpcEncoding,
    /// True to connect without TLS, for servers on this machine or in a service mesh.
    pub plaintext: bool,
}

/// Server and tool name of an `mcp` tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpRef {
    /// Name of the server.
    pub server: String,
    /// Name of the tool at the server.
    pub tool: String,
}

/// Agent of an `a2a` tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct A2aSpec {
    /// Path of the agent card, if it is not the default path under the endpoint.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub card_path: String,
    /// Polling interval for unfinished tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_interval: Option<HumanDuration>,
}

/// Program of a `cli` tool. No shell is involved: each argument is passed unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CliSpec {
    /// The program, by its name in the operator's list of commands.
    pub command: String,
    /// Arguments, each a template over the arguments of the call. A value that begins with `-` is rejected at the
    /// beginning of an argument, unless `--` precedes it.
    pub args: Vec<String>,
    /// True if the program reads the arguments of the call as JSON from standard input.
    pub stdin_from_input: bool,
    /// True if the program reads a request envelope of the tool contract and writes a response envelope.
    pub envelope: bool,
    /// Output stream that contains the response.
    pub output: CliOutput,
    /// Working directory, relative to the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// Environment variables. The engine's own environment is not passed on.
    pub env: BTreeMap<String, String>,
    /// Reachable hosts, such as `api.example.com` or `*.example.com`. Empty means no network.
    pub hosts: Vec<String>,
    /// Container image. `None` uses the operator's image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Files that the program can access.
    pub workspace: CliWorkspace,
    /// Resource limits, at most those of the operator.
    pub resources: ProcessLimits,
}

/// Resource limits of a sandboxed program. Unset values use the operator's limits, which are also the maximum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessLimits {
    /// Memory limit in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// CPU limit in percent of one core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<u32>,
    /// Maximum number of processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u32>,
}

/// Default memory limit of a module in bytes.
const WASM_MEMORY_BYTES_DEFAULT: u64 = 64 << 20;
/// Default fuel of one call: roughly the number of instructions.
const WASM_FUEL_DEFAULT: u64 = 10_000_000_000;

/// Module of a `wasm` tool and its rights. It can access nothing of the host except what these fields grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WasmSpec {
    /// A file below the operator's module directory, an `https://` URL, or `blob:` and the SHA-256 hash of a stored
    /// module.
    pub module: String,
    /// SHA-256 hash of the module in hex. Required for a URL. A module with another hash does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Name of the called function. Empty uses `_start` or else `run`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub entrypoint: String,
    /// Limit on the total memory in bytes.
    pub max_memory_bytes: u64,
    /// Fuel of one call: roughly the number of instructions. 0 disables the limit, which is faster; only the timeout
    /// then stops the module.
    pub fuel: u64,
    /// True to provide WASI: standard streams, clocks, randomness, arguments and variables, but no files.
    pub enable_wasi: bool,
    /// Command-line arguments.
    pub args: Vec<String>,
    /// Environment variables. The engine's own environment is not passed on.
    pub env: BTreeMap<String, String>,
    /// Hosts for HTTP requests, such as `api.example.com`, `*.example.com` or `api.example.com:8443`.
    pub hosts: Vec<String>,
    /// True to provide a key-value store for the tool.
    pub kv: bool,
    /// True to let the module report progress.
    pub log: bool,
}

impl WasmSpec {
    /// Returns the fuel limit of one call. `None` if it is disabled.
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
