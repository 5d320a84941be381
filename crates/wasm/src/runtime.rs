//! Tools of type `wasm`.

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
use provost_tool::{Attempt, OUTCOME_DETAIL, OUTCOME_UNKNOWN, ToolOutput, ToolRuntime};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use crate::call::error_excerpt::Words;
use crate::call::store_data::{Given, Guest, Meter};
use crate::call::{self, Done, Ending};
use crate::contract::{ModuleRequest, outcome};
use crate::engine::Machine;
use crate::error::WasmError;
use crate::host::key_value::{KeyValues, KvScope, MemoryKeyValues};
use crate::host::{Grants, Host, Used};
use crate::limits;
use crate::module::compiled_cache::{Cache, hex};
use crate::module::inspect;
use crate::module::loaded::{self, Shelf};
use crate::module::source::{Wanted, wrong};

/// The detail of a fault that says which bound was reached.
pub(crate) const LIMIT_DETAIL: &str = "limit";

/// How modules are run.
#[derive(Clone)]
pub struct WasmOptions {
    /// Where files of modules are; without it a module comes from an address or is kept here.
    pub modules: Option<PathBuf>,
    /// Where compiled modules and fetched ones are kept. It must be a directory that nobody else may use.
    pub cache: Option<PathBuf>,
    /// What may be reached of the hosts that tools name, and of the addresses of modules.
    pub network: NetPolicy,
    /// True if tools that ask for it may reach the private network.
    pub allow_private_tools: bool,
    /// Who is told of every attempt to reach a host.
    pub log: EgressLog,
    /// Where tools keep values.
    pub kv: Arc<dyn KeyValues>,
    /// Bytes of memory of all calls together.
    pub memory_bytes_total: u64,
    /// Time and chance.
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
            kv: Arc::new(MemoryKeyValues::default()),
            memory_bytes_total: limits::MEMORY_BYTES_TOTAL_DEFAULT,
            env: Env::system(),
        }
    }
}

/// Tools of type `wasm`. Cheap to clone: clones share machine and modules.
#[derive(Clone)]
pub struct WasmRuntime {
    options: Arc<WasmOptions>,
    machine: Arc<Machine>,
    shelf: Arc<Shelf>,
    public: NetClient,
    private: NetClient,
}

impl WasmRuntime {
    /// Sets up a machine and its cache.
    pub fn open(options: WasmOptions) -> Result<Self, WasmError> {
        let machine = Machine::start(options.memory_bytes_total)?;
        let cache = match &options.cache {
            None => None,
            Some(dir) => Some(Arc::new(Cache::open(dir, options.env.clone())?)),
        };
        let shelf = Arc::new(Shelf::new(Arc::clone(&machine), cache));
        let network = options.network;
        let private = NetPolicy { allow_private: true, ..network };
        Ok(Self {
            options: Arc::new(options),
            machine,
            shelf,
            public: NetClient::new(network),
            private: NetClient::new(private),
        })
    }

    /// Keeps a module here, to be named as `blob:` and its SHA-256, which is given back. What no tool could run is refused;
    /// it takes as long as compiling does, and the first call is the faster for it.
    pub fn keep(&self, module: &[u8]) -> Result<String, WasmError> {
        let cache = self.shelf.cache().ok_or_else(|| WasmError::Cache {
            path: String::new(),
            why: "no directory was given".to_owned(),
        })?;
        if module.len() as u64 > limits::MODULE_BYTES_MAX {
            let why = format!("it is larger than {} bytes", limits::MODULE_BYTES_MAX);
            return Err(WasmError::Module(why));
        }
        let found = inspect::inspect(module, Grants::ALL).map_err(WasmError::Module)?;
        let compiled = self.shelf.compiled(module, found.is_component);
        compiled.map_err(|fault| WasmError::Module(fault.message))?;
        let kept = cache.keep_module(module);
        kept.map(|hash| hex(&hash)).map_err(WasmError::io("the module cannot be kept"))
    }

    /// Calls that are in a module right now.
    pub fn running(&self) -> usize {
        self.machine.running()
    }

    /// Bytes of memory that all calls have right now.
    pub fn memory_bytes(&self) -> u64 {
        self.machine.memory.used()
    }

    fn client(&self, tool: &ToolResource) -> Result<&NetClient, ToolContractError> {
        match (
            tool.allow_private,
            self.options.network.allow_private || self.options.allow_private_tools,
        ) {
            (false, _) => Ok(&self.public),
            (true, true) => Ok(&self.private),
            (true, false) => {
                let message = format!(
                    "tool `{}` asks for the private network with `allow_private: true`, which the operator has not opened to tools",
                    tool.name
                );
                Err(ToolContractError::new(ToolErrorCode::PermissionDenied, message)
                    .detail("field", "allow_private"))
            }
        }
    }

    async fn run(self, attempt: Attempt) -> Result<ToolOutput, ToolContractError> {
        let spec = spec(&attempt.tool)?;
        let dir = self.options.modules.as_deref();
        let ready = self.shelf.ready(spec, dir, &self.public).await?;
        let request = ModuleRequest::new(&attempt.tool, spec, &attempt.request, ready.entry());
        let input = serde_json::to_vec(&request).map_err(|error| {
            ToolContractError::new(
                ToolErrorCode::InvalidInput,
                format!("the request has no JSON form: {error}"),
            )
        })?;
        let _room = self.machine.room.acquire().await;
        let guest = self.guest(&attempt, spec, input.into())?;
        let running = call::run(Arc::clone(&self.machine), ready, guest, spec.fuel_limit());
        let threads = self.machine.threads().map_err(WasmError::unavailable)?;
        let task = AbortOnDropHandle::new(threads.spawn(running));
        let done = task.await.map_err(|error| match error.is_cancelled() {
            true => ToolContractError::new(ToolErrorCode::Canceled, "the call was stopped"),
            false => {
                ToolContractError::final_failure("the machine for modules went wrong in this call")
            }
        })?;
        judged(&attempt, spec, done)
    }

    fn guest(
        &self,
        attempt: &Attempt,
        spec: &WasmSpec,
        input: Bytes,
    ) -> Result<Guest, ToolContractError> {
        let mut args = vec![attempt.tool.name.clone()];
        args.extend(spec.args.iter().cloned());
        let given = Given { args, env: spec.env.clone() };
        let host = Host {
            tool: Arc::clone(&attempt.tool),
            scope: KvScope {
                namespace: attempt.request.namespace.clone(),
                tool: attempt.tool.name.clone(),
            },
            rules: rules(spec)?.into(),
            client: self.client(&attempt.tool)?.clone(),
            kv: Arc::clone(&self.options.kv),
            egress: Arc::clone(&self.options.log),
            labels: labels(attempt),
            progress: Arc::clone(&attempt.progress),
            credentials: attempt.credentials.clone(),
            home: Handle::current(),
            deadline: attempt.deadline,
            used: Used::default(),
        };
        let meter = Meter::new(Arc::clone(&self.machine.memory), spec.max_memory_bytes);
        Ok(Guest::new(input, Arc::new(given), meter, host, self.options.env.clone()))
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
        let spec = spec(tool)?;
        if !tool.endpoint.is_empty() {
            let message = "a `wasm` tool has no endpoint: remove it";
            return Err(wrong(message).detail("field", "endpoint"));
        }
        if spec.max_memory_bytes > limits::MEMORY_BYTES_MAX {
            let message = format!("`wasm.max_memory_bytes` is above {}", limits::MEMORY_BYTES_MAX);
            return Err(wrong(&message).detail("field", "wasm.max_memory_bytes"));
        }
        let rules = rules(spec)?;
        self.client(tool)?;
        // A secret goes to the one host that it is for, and never to whichever the module would choose.
        let is_sure = rules.len() == 1 && spec.hosts.iter().all(|host| !host.contains('*'));
        if tool.auth.is_some() && !is_sure {
            let message =
                "a `wasm` tool with `auth` names exactly one host, to which the secret goes";
            return Err(wrong(message).detail("field", "auth"));
        }
        let wanted = Wanted::of(spec, self.options.modules.as_deref())?;
        if let Some(bytes) = wanted.at_hand(self.shelf.cache())? {
            let found = inspect::inspect(&bytes, Grants::of(spec)).map_err(|why| wrong(&why))?;
            loaded::entry(&found, &spec.entrypoint)?;
        }
        Ok(())
    }

    fn invoke(
        &self,
        attempt: Attempt,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolContractError>> {
        let runtime = self.clone();
        let (deadline, cancel) = (attempt.deadline, attempt.cancel.clone());
        async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(ToolContractError::new(ToolErrorCode::Canceled, "the call was stopped")),
                came = runtime.run(attempt) => came,
                () = tokio::time::sleep_until(deadline.into()) => Err(late()),
            }
        }
        .boxed()
    }
}

fn spec(tool: &ToolResource) -> Result<&WasmSpec, ToolContractError> {
    tool.wasm.as_ref().ok_or_else(|| wrong("a `wasm` tool needs `wasm.module`"))
}

/// What is known of the call.
fn labels(attempt: &Attempt) -> BTreeMap<String, String> {
    let known = attempt.labels().into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The hosts of a tool as rules; one may name a port.
fn rules(spec: &WasmSpec) -> Result<Vec<EgressRule>, ToolContractError> {
    let rule = |text: &String| {
        let port = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let rule = match port {
            Some((host, port)) => EgressRule::new(host).map(|rule| rule.ports([port])),
            None => EgressRule::new(text),
        };
        rule.map_err(|error| wrong(&error.to_string()).detail("field", "wasm.hosts"))
    };
    spec.hosts.iter().map(rule).collect()
}

fn late() -> ToolContractError {
    ToolContractError::new(ToolErrorCode::Timeout, "the module did not answer in time")
        .detail(LIMIT_DETAIL, "time")
}

fn judged(attempt: &Attempt, spec: &WasmSpec, done: Done) -> Result<ToolOutput, ToolContractError> {
    tracing::debug!(
        tool.name = %attempt.tool.name,
        fuel = done.fuel_used,
        memory_bytes = done.memory_bytes,
        "a module ended: {:?}", done.ending
    );
    let words = Words(attempt.redact.clone());
    let is_cut = done.words.len() >= limits::WORDS_BYTES_MAX;
    let said = match words.bytes(&done.words, is_cut) {
        said if said.is_empty() => said,
        said => format!(": {said}"),
    };
    let failed = match done.ending {
        Ending::Finished => {
            return outcome(&done.answer, &attempt.request, &|text| words.shown(text))
                .map(ToolOutput::text);
        }
        Ending::Exit(code) => {
            let message = format!("the module ended with code {code}{said}");
            ToolContractError::new(ToolErrorCode::ExecutionFailed, message)
                .detail("exit_code", code.to_string())
        }
        Ending::OutOfFuel => {
            let message = format!(
                "the module used up its {} units of fuel: raise `wasm.fuel` if it needs more, or turn it off with 0",
                spec.fuel
            );
            ToolContractError::final_failure(message).detail(LIMIT_DETAIL, "fuel")
        }
        Ending::Late => late(),
        Ending::Flooded => {
            let message = format!("the module wrote more than {} bytes", limits::OUTPUT_BYTES_MAX);
            ToolContractError::final_failure(message).detail(LIMIT_DETAIL, "output")
        }
        Ending::Crowded => {
            let message =
                "other modules have all the memories and tables that there are: try again";
            ToolContractError::new(ToolErrorCode::ExecutionFailed, message)
                .detail(LIMIT_DETAIL, "places")
        }
        Ending::Trapped(why) => ToolContractError::final_failure(format!(
            "the module went wrong ({}){said}",
            words.shown(&why)
        )),
    };
    let failed = match done.refused {
        Some(what) if !failed.details.contains_key(LIMIT_DETAIL) => {
            failed.detail(LIMIT_DETAIL, what)
        }
        _ => failed,
    };
    Err(if done.has_acted { unknown(&attempt.tool, failed) } else { failed })
}

/// The module may have changed something outside before it failed: again only if a repeat does no harm.
fn unknown(tool: &ToolResource, failed: ToolContractError) -> ToolContractError {
    let is_harmless =
        matches!(tool.effect, EffectClass::Pure | EffectClass::Idempotent | EffectClass::Keyed);
    ToolContractError { retryable: failed.retryable && is_harmless, ..failed }
        .detail(OUTCOME_DETAIL, OUTCOME_UNKNOWN)
}
