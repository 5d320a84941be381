//! The runtime of tools of type `wasm`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::Env;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::recovery::EffectClass;
use provost_core::resource::{IsolationMode, ToolResource, ToolType, WasmSpec};
use provost_net::{NetClient, NetPolicy};
use provost_sandbox::EgressRule;
use provost_sandbox::egress::EgressLog;
use provost_tool::{OUTCOME_DETAIL, OUTCOME_UNKNOWN, ToolInvocation, ToolOutput, ToolRuntime};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use crate::call::error_excerpt::ErrorExcerpt;
use crate::call::store_data::{StoreData, StoreLimiter, WasiInputs};
use crate::call::{self, CallOutcome, CallResult};
use crate::contract::{ModuleRequest, parse_response};
use crate::engine::WasmEngine;
use crate::error::WasmError;
use crate::host::key_value::{InMemoryKeyValueStore, KeyValueScope, KeyValueStore};
use crate::host::{HostGrants, HostState, HostUsage};
use crate::limits;
use crate::module::compiled_cache::{CompiledCache, hex};
use crate::module::inspect;
use crate::module::loaded::{self, ModuleCache};
use crate::module::source::{ModuleRef, invalid_module};

/// Error detail that names the limit that was reached.
pub(crate) const LIMIT_DETAIL: &str = "limit";

/// Options of the runtime.
#[derive(Clone)]
pub struct WasmOptions {
    /// Directory of module files. `None`: modules come from URLs or are stored.
    pub modules: Option<PathBuf>,
    /// Directory of compiled, fetched and stored modules. It must be private. `None`: no cache.
    pub cache: Option<PathBuf>,
    /// Network policy for the hosts of tools and the URLs of modules.
    pub network: NetPolicy,
    /// True if tools may request access to private networks.
    pub allow_private_tools: bool,
    /// Receives every attempt to reach a host.
    pub log: EgressLog,
    /// Key-value storage of tools.
    pub kv: Arc<dyn KeyValueStore>,
    /// Memory budget of all calls together, in bytes.
    pub memory_bytes_total: u64,
    /// Source of time and random numbers.
    pub env: Env,
}

impl Default for WasmOptions {
    fn default() -> Self {
        Self {
            modules: None,
            cache: None,
            network: NetPolicy::default(),
            allow_private_tools: false,
            log: Arc::new(|_| {}),
            kv: Arc::new(InMemoryKeyValueStore::default()),
            memory_bytes_total: limits::MEMORY_BYTES_TOTAL_DEFAULT,
            env: Env::system(),
        }
    }
}

/// Runs tools of type `wasm`. Clones share the engine and the modules.
#[derive(Clone)]
pub struct WasmRuntime {
    options: Arc<WasmOptions>,
    wasm_engine: Arc<WasmEngine>,
    modules: Arc<ModuleCache>,
    public_client: NetClient,
    private_client: NetClient,
}

impl WasmRuntime {
    /// Starts the engine and opens the cache directory. Returns an error if a thread cannot be started or other users
    /// can access the directory.
    pub fn open(options: WasmOptions) -> Result<Self, WasmError> {
        let wasm_engine = WasmEngine::start(options.memory_bytes_total)?;
        let cache = match &options.cache {
            None => None,
            Some(dir) => Some(Arc::new(CompiledCache::open(dir, options.env.clone())?)),
        };
        let modules = Arc::new(ModuleCache::new(Arc::clone(&wasm_engine), cache));
        let network = options.network;
        let private = NetPolicy { allow_private: true, ..network };
        Ok(Self {
            options: Arc::new(options),
            wasm_engine,
            modules,
            public_client: NetClient::new(network),
            private_client: NetClient::new(private),
        })
    }

    /// Compiles a module, stores it, and returns its SHA-256 hash, which a manifest names as `blob:`.
    ///
    /// Returns an error for a module that no tool could run, and without a cache directory.
    pub fn store_module(&self, module: &[u8]) -> Result<String, WasmError> {
        let cache = self.modules.cache().ok_or_else(|| WasmError::Cache {
            path: String::new(),
            reason: "no cache directory is configured".to_owned(),
        })?;
        if module.len() as u64 > limits::MODULE_BYTES_MAX {
            let reason = format!("the module is larger than {} bytes", limits::MODULE_BYTES_MAX);
            return Err(WasmError::Module(reason));
        }
        let found = inspect::inspect(module, HostGrants::ALL).map_err(WasmError::Module)?;
        let compiled = self.modules.compile(module, found.is_component);
        compiled.map_err(|fault| WasmError::Module(fault.message))?;
        let cached = cache.store_module(module);
        cached.map(|hash| hex(&hash)).map_err(WasmError::io("cannot store the module"))
    }

    /// Returns the number of active calls.
    pub fn active_calls(&self) -> usize {
        self.wasm_engine.active_calls()
    }

    /// Returns the memory that all calls currently use, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.wasm_engine.memory.used()
    }

    /// Returns the HTTP client for a tool. Returns an error if the tool requests access to private networks and the
    /// operator does not permit it.
    fn client(&self, tool: &ToolResource) -> Result<&NetClient, ToolContractError> {
        match (
            tool.allow_private,
            self.options.network.allow_private || self.options.allow_private_tools,
        ) {
            (false, _) => Ok(&self.public_client),
            (true, true) => Ok(&self.private_client),
            (true, false) => {
                let message = format!(
                    "tool `{}` requests access to private networks with `allow_private: true`, which the operator does not permit",
                    tool.name
                );
                Err(ToolContractError::new(ToolErrorCode::PermissionDenied, message)
                    .detail("field", "allow_private"))
            }
        }
    }

    /// Loads the module of a tool, waits for a slot, and executes the call.
    async fn run(self, invocation: ToolInvocation) -> Result<ToolOutput, ToolContractError> {
        let spec = wasm_spec(&invocation.tool)?;
        let dir = self.options.modules.as_deref();
        let module = self.modules.load_for(spec, dir, &self.public_client).await?;
        let request =
            ModuleRequest::new(&invocation.tool, spec, &invocation.request, module.entry());
        let input = serde_json::to_vec(&request).map_err(|error| {
            ToolContractError::new(
                ToolErrorCode::InvalidInput,
                format!("the request has no JSON form: {error}"),
            )
        })?;
        let _slot = self.wasm_engine.slots.acquire().await;
        let data = self.store_data(&invocation, spec, input.into())?;
        let running = call::run(Arc::clone(&self.wasm_engine), module, data, spec.fuel_limit());
        let threads = self.wasm_engine.threads().map_err(WasmError::unavailable)?;
        let task = AbortOnDropHandle::new(threads.spawn(running));
        let done = task.await.map_err(|error| match error.is_cancelled() {
            true => ToolContractError::new(ToolErrorCode::Canceled, "the call was cancelled"),
            false => ToolContractError::final_failure("the module engine failed during this call"),
        })?;
        to_tool_result(&invocation, spec, done)
    }

    /// Creates the data of a call: input, limits and host functions.
    fn store_data(
        &self,
        invocation: &ToolInvocation,
        spec: &WasmSpec,
        input: Bytes,
    ) -> Result<StoreData, ToolContractError> {
        let mut args = vec![invocation.tool.name.clone()];
        args.extend(spec.args.iter().cloned());
        let wasi_inputs = WasiInputs { args, env: spec.env.clone() };
        let host = HostState {
            tool: Arc::clone(&invocation.tool),
            scope: KeyValueScope {
                namespace: invocation.request.namespace.clone(),
                tool: invocation.tool.name.clone(),
            },
            rules: egress_rules(spec)?.into(),
            client: self.client(&invocation.tool)?.clone(),
            kv: Arc::clone(&self.options.kv),
            egress: Arc::clone(&self.options.log),
            labels: labels(invocation),
            progress: Arc::clone(&invocation.progress),
            credentials: invocation.credentials.clone(),
            runtime: Handle::current(),
            deadline: invocation.deadline,
            usage: HostUsage::default(),
        };
        let limiter =
            StoreLimiter::new(Arc::clone(&self.wasm_engine.memory), spec.max_memory_bytes);
        Ok(StoreData::new(input, Arc::new(wasi_inputs), limiter, host, self.options.env.clone()))
    }
}

impl ToolRuntime for WasmRuntime {
    fn kind(&self) -> ToolType {
        ToolType::Wasm
    }

    fn isolation(&self) -> IsolationMode {
        IsolationMode::Wasm
    }

    fn check(&self, tool: &ToolResource) -> Result<(), ToolContractError> {
        let spec = wasm_spec(tool)?;
        if !tool.endpoint.is_empty() {
            let message = "a `wasm` tool has no endpoint: remove it";
            return Err(invalid_module(message).detail("field", "endpoint"));
        }
        if spec.max_memory_bytes > limits::MEMORY_BYTES_MAX {
            let message = format!("`wasm.max_memory_bytes` exceeds {}", limits::MEMORY_BYTES_MAX);
            return Err(invalid_module(&message).detail("field", "wasm.max_memory_bytes"));
        }
        let rules = egress_rules(spec)?;
        self.client(tool)?;
        // The secret must go to one fixed host, and never to a host that the module chooses.
        let has_single_host = rules.len() == 1 && spec.hosts.iter().all(|host| !host.contains('*'));
        if tool.auth.is_some() && !has_single_host {
            let message = "a `wasm` tool with `auth` must declare exactly one host without a wildcard, which receives the secret";
            return Err(invalid_module(message).detail("field", "auth"));
        }
        let reference = ModuleRef::of(spec, self.options.modules.as_deref())?;
        if let Some(bytes) = reference.load_local(self.modules.cache())? {
            let found = inspect::inspect(&bytes, HostGrants::of(spec))
                .map_err(|reason| invalid_module(&reason))?;
            loaded::find_entry(&found, &spec.entrypoint)?;
        }
        Ok(())
    }

    fn invoke(
        &self,
        invocation: ToolInvocation,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolContractError>> {
        let runtime = self.clone();
        let (deadline, cancel) = (invocation.deadline, invocation.cancel.clone());
        async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(ToolContractError::new(ToolErrorCode::Canceled, "the call was cancelled")),
                result = runtime.run(invocation) => result,
                () = tokio::time::sleep_until(deadline.into()) => Err(timeout_error()),
            }
        }
        .boxed()
    }
}

/// Returns the `wasm` section of a manifest. Returns an error if it is missing.
fn wasm_spec(tool: &ToolResource) -> Result<&WasmSpec, ToolContractError> {
    tool.wasm.as_ref().ok_or_else(|| invalid_module("a `wasm` tool needs `wasm.module`"))
}

/// Returns the labels of the call without empty values.
fn labels(invocation: &ToolInvocation) -> BTreeMap<String, String> {
    let labels = invocation.labels().into_iter().filter(|(_, value)| !value.is_empty());
    labels.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Converts the hosts of a tool to egress rules. A host may include a port. Returns an error for an invalid host.
fn egress_rules(spec: &WasmSpec) -> Result<Vec<EgressRule>, ToolContractError> {
    let rule = |text: &String| {
        let port = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let rule = match port {
            Some((host, port)) => EgressRule::new(host).map(|rule| rule.ports([port])),
            None => EgressRule::new(text),
        };
        rule.map_err(|error| invalid_module(&error.to_string()).detail("field", "wasm.hosts"))
    };
    spec.hosts.iter().map(rule).collect()
}

/// Creates the error of a call that exceeded its time limit.
fn timeout_error() -> ToolContractError {
    ToolContractError::new(ToolErrorCode::Timeout, "the module exceeded its time limit")
        .detail(LIMIT_DETAIL, "time")
}

/// Converts the result of a call to a tool output, or to an error with the limit or the exit code. Logs the use of
/// resources.
fn to_tool_result(
    invocation: &ToolInvocation,
    spec: &WasmSpec,
    done: CallResult,
) -> Result<ToolOutput, ToolContractError> {
    tracing::debug!(
        tool.name = %invocation.tool.name,
        fuel = done.fuel_used,
        memory_bytes = done.memory_bytes,
        "a module ended: {:?}", done.outcome
    );
    let excerpt = ErrorExcerpt(invocation.redact.clone());
    let is_cut = done.stderr.len() >= limits::STDERR_BYTES_MAX;
    let stderr = match excerpt.of_bytes(&done.stderr, is_cut) {
        stderr if stderr.is_empty() => stderr,
        stderr => format!(": {stderr}"),
    };
    let error = match done.outcome {
        CallOutcome::Finished => {
            return parse_response(&done.stdout, &invocation.request, &|text| {
                excerpt.of_text(text)
            })
            .map(ToolOutput::text);
        }
        CallOutcome::Exit(code) => {
            let message = format!("the module exited with code {code}{stderr}");
            ToolContractError::new(ToolErrorCode::ExecutionFailed, message)
                .detail("exit_code", code.to_string())
        }
        CallOutcome::OutOfFuel => {
            let message = format!(
                "the module consumed its {} units of fuel: raise `wasm.fuel`, or set it to 0 for no limit",
                spec.fuel
            );
            ToolContractError::final_failure(message).detail(LIMIT_DETAIL, "fuel")
        }
        CallOutcome::Timeout => timeout_error(),
        CallOutcome::OutputLimit => {
            let message = format!("the module wrote more than {} bytes", limits::OUTPUT_BYTES_MAX);
            ToolContractError::final_failure(message).detail(LIMIT_DETAIL, "output")
        }
        CallOutcome::NoCapacity => {
            let message = "all memories and tables are in use by other calls: try again";
            ToolContractError::new(ToolErrorCode::ExecutionFailed, message)
                .detail(LIMIT_DETAIL, "places")
        }
        CallOutcome::Trapped(reason) => ToolContractError::final_failure(format!(
            "the module trapped ({}){stderr}",
            excerpt.of_text(&reason)
        )),
    };
    let error = match done.refused {
        Some(what) if !error.details.contains_key(LIMIT_DETAIL) => error.detail(LIMIT_DETAIL, what),
        _ => error,
    };
    Err(if done.has_side_effects { mark_outcome_unknown(&invocation.tool, error) } else { error })
}

/// Marks an error of a module that may have had side effects. The error is then retryable only if repeating the call is
/// harmless.
fn mark_outcome_unknown(tool: &ToolResource, error: ToolContractError) -> ToolContractError {
    let is_repeatable =
        matches!(tool.effect, EffectClass::Pure | EffectClass::Idempotent | EffectClass::Keyed);
    ToolContractError { retryable: error.retryable && is_repeatable, ..error }
        .detail(OUTCOME_DETAIL, OUTCOME_UNKNOWN)
}
