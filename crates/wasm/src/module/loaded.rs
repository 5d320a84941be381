//! Modules that are ready to run: fetched, looked at, compiled and linked once, and shared by all calls.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use provost_core::contract::ToolContractError;
use provost_core::resource::WasmSpec;
use provost_net::NetClient;
use tokio::sync::OnceCell;
use wasmtime::component::Component;
use wasmtime::{Engine, Linker, Module};

use crate::call::store_data::Guest;
use crate::engine::Machine;
use crate::host::{self, Grants};
use crate::limits::MODULES_MAX;
use crate::module::compiled_cache::{Cache, Compiled, Sha256, sha256};
use crate::module::inspect::{self, Found};
use crate::module::source::{Wanted, wrong};
use crate::wasi::component;
use crate::wasi::preview1;

/// Entries that are tried where a manifest names none, in this order.
const ENTRIES: [&str; 2] = ["_start", "run"];
/// What a module that is no program wants called first.
pub(crate) const INITIALIZE: &str = "_initialize";

/// A module that is ready to run.
pub(crate) enum Ready {
    /// A core module, the function that is called, and whether it wants to be set up first.
    Core { pre: wasmtime::InstancePre<Guest>, entry: String, wants_setup: bool },
    /// A component.
    Component { pre: wasmtime::component::InstancePre<Guest>, entry: component::Entry },
}

impl Ready {
    /// The name of what is called.
    pub(crate) fn entry(&self) -> &str {
        match self {
            Self::Core { entry, .. } => entry,
            Self::Component { entry, .. } => entry.name(),
        }
    }

    /// The engine that it runs on.
    pub(crate) fn engine(&self) -> &Engine {
        match self {
            Self::Core { pre, .. } => pre.module().engine(),
            Self::Component { pre, .. } => pre.engine(),
        }
    }
}

/// What one tool wants to run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Title {
    module: String,
    sha256: Option<String>,
    entrypoint: String,
    grants: Grants,
}

/// Modules that are ready to run.
pub(crate) struct Shelf {
    machine: Arc<Machine>,
    cache: Option<Arc<Cache>>,
    ready: Mutex<BTreeMap<Title, Arc<OnceCell<Arc<Ready>>>>>,
    compiled: Mutex<BTreeMap<Sha256, Compiled>>,
}

impl Shelf {
    pub(crate) fn new(machine: Arc<Machine>, cache: Option<Arc<Cache>>) -> Self {
        Self { machine, cache, ready: Mutex::default(), compiled: Mutex::default() }
    }

    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.cache.as_deref()
    }

    /// The module of a tool. The first who asks makes it ready, all others wait for that.
    pub(crate) async fn ready(
        self: &Arc<Self>,
        spec: &WasmSpec,
        dir: Option<&Path>,
        net: &NetClient,
    ) -> Result<Arc<Ready>, ToolContractError> {
        let title = Title {
            module: spec.module.clone(),
            sha256: spec.sha256.clone(),
            entrypoint: spec.entrypoint.clone(),
            grants: Grants::of(spec),
        };
        let place = {
            let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            if ready.len() >= MODULES_MAX && !ready.contains_key(&title) {
                ready.pop_first();
            }
            Arc::clone(ready.entry(title.clone()).or_default())
        };
        let made = place.get_or_try_init(|| async {
            let bytes = Wanted::of(spec, dir)?.bytes(net, self.cache()).await?;
            let room = Arc::clone(&self.machine.compiling).acquire_owned().await;
            let shelf = Arc::clone(self);
            let making = tokio::task::spawn_blocking(move || {
                // Compiling goes on although its caller may have gone, and takes its room with it.
                let _room = room;
                shelf.make(&bytes, &title)
            });
            making.await.map_err(|error| ToolContractError::final_failure(error.to_string()))?
        });
        made.await.map(Arc::clone)
    }

    /// Makes a module ready. It takes long only where it must be compiled.
    fn make(&self, bytes: &[u8], title: &Title) -> Result<Arc<Ready>, ToolContractError> {
        let found = inspect::inspect(bytes, title.grants).map_err(|why| wrong(&why))?;
        let entry = entry(&found, &title.entrypoint)?;
        let compiled = self.compiled(bytes, found.is_component)?;
        let refused = |error: wasmtime::Error| wrong(&format!("it cannot be linked: {error:#}"));
        let ready = match compiled {
            Compiled::Core(module) => {
                let mut linker = Linker::new(module.engine());
                if title.grants.wasi {
                    preview1::link(&mut linker, &module).map_err(refused)?;
                }
                host::link(&mut linker, title.grants).map_err(refused)?;
                let pre = linker.instantiate_pre(&module).map_err(refused)?;
                let wants_setup = found.exports.iter().any(|name| name == INITIALIZE);
                Ready::Core { pre, entry, wants_setup }
            }
            Compiled::Component(component) => {
                let linker = component::linker(&component, title.grants);
                let pre = linker.map_err(refused)?.instantiate_pre(&component).map_err(refused)?;
                Ready::Component { pre, entry: component::Entry::of(&entry) }
            }
        };
        Ok(Arc::new(ready))
    }

    /// A module, compiled: now, before, or by another process.
    pub(crate) fn compiled(
        &self,
        bytes: &[u8],
        is_component: bool,
    ) -> Result<Compiled, ToolContractError> {
        let hash = sha256(bytes);
        let all = || self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = all().get(&hash).cloned() {
            return Ok(compiled);
        }
        let engine = self.machine.engine();
        let kept = self.cache().and_then(|cache| cache.find(engine, &hash, is_component));
        let compiled = match kept {
            Some(compiled) => compiled,
            None => {
                let refused = |error: wasmtime::Error| {
                    wrong(&format!("it is no module that can run: {error:#}"))
                };
                let compiled = match is_component {
                    true => {
                        Compiled::Component(Component::from_binary(engine, bytes).map_err(refused)?)
                    }
                    false => Compiled::Core(Module::from_binary(engine, bytes).map_err(refused)?),
                };
                if let Some(cache) = self.cache() {
                    cache.keep(&hash, &compiled);
                }
                compiled
            }
        };
        let mut all = all();
        if all.len() >= MODULES_MAX {
            all.pop_first();
        }
        all.insert(hash, compiled.clone());
        Ok(compiled)
    }
}

/// The function that is called.
pub(crate) fn entry(found: &Found, named: &str) -> Result<String, ToolContractError> {
    if found.is_component {
        return component::entry(found, named).ok_or_else(|| missing(named));
    }
    let has = |name: &str| found.exports.iter().any(|export| export == name);
    match named {
        "" => ENTRIES.into_iter().find(|name| has(name)).map(str::to_owned),
        named => has(named).then(|| named.to_owned()),
    }
    .ok_or_else(|| missing(named))
}

fn missing(named: &str) -> ToolContractError {
    let named: String = named.chars().take(120).collect();
    let what = match named.as_str() {
        "" => "it exports neither `_start` nor `run`: name what is called".to_owned(),
        named => format!("it exports no function `{named}`"),
    };
    wrong(&what).detail("field", "wasm.entrypoint")
}
