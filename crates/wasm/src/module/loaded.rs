//! Loaded modules: fetched, inspected, compiled and linked once, and shared by all calls.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use provost_core::contract::ToolContractError;
use provost_core::resource::WasmSpec;
use provost_net::NetClient;
use tokio::sync::OnceCell;
use wasmtime::component::Component;
use wasmtime::{Engine, Linker, Module};

use crate::call::store_data::StoreData;
use crate::engine::WasmEngine;
use crate::host::{self, HostGrants};
use crate::limits::MODULES_MAX;
use crate::module::compiled_cache::{CompiledCache, CompiledModule, Sha256, sha256};
use crate::module::inspect::{self, ModuleInfo};
use crate::module::source::{ModuleRef, invalid_module};
use crate::wasi::component;
use crate::wasi::preview1;

/// Default entry functions, in this order.
const ENTRIES: [&str; 2] = ["_start", "run"];
/// Initialization function of a module that is not a program.
pub(crate) const INITIALIZE: &str = "_initialize";

/// A compiled module whose imports are linked, ready to be instantiated.
pub(crate) enum LoadedModule {
    /// A core module, its entry function, and whether it exports an initialization function.
    Core { pre: wasmtime::InstancePre<StoreData>, entry: String, has_initializer: bool },
    /// A component and its entry.
    Component { pre: wasmtime::component::InstancePre<StoreData>, entry: component::Entry },
}

impl LoadedModule {
    /// Returns the name of the entry function.
    pub(crate) fn entry(&self) -> &str {
        match self {
            Self::Core { entry, .. } => entry,
            Self::Component { entry, .. } => entry.name(),
        }
    }

    /// Returns the engine of the module.
    pub(crate) fn engine(&self) -> &Engine {
        match self {
            Self::Core { pre, .. } => pre.module().engine(),
            Self::Component { pre, .. } => pre.engine(),
        }
    }
}

/// Fields of a manifest that determine a loaded module.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ModuleKey {
    module: String,
    sha256: Option<String>,
    entrypoint: String,
    grants: HostGrants,
}

/// Loaded modules in memory, and compiled modules in memory and in the cache directory.
pub(crate) struct ModuleCache {
    wasm_engine: Arc<WasmEngine>,
    cache: Option<Arc<CompiledCache>>,
    ready: Mutex<BTreeMap<ModuleKey, Arc<OnceCell<Arc<LoadedModule>>>>>,
    compiled: Mutex<BTreeMap<Sha256, CompiledModule>>,
}

impl ModuleCache {
    pub(crate) fn new(wasm_engine: Arc<WasmEngine>, cache: Option<Arc<CompiledCache>>) -> Self {
        Self { wasm_engine, cache, ready: Mutex::default(), compiled: Mutex::default() }
    }

    pub(crate) fn cache(&self) -> Option<&CompiledCache> {
        self.cache.as_deref()
    }

    /// Returns the loaded module of a tool. The first caller loads it, concurrent callers wait. Evicts another module
    /// if the cache is full.
    pub(crate) async fn load_for(
        self: &Arc<Self>,
        spec: &WasmSpec,
        dir: Option<&Path>,
        net: &NetClient,
    ) -> Result<Arc<LoadedModule>, ToolContractError> {
        let key = ModuleKey {
            module: spec.module.clone(),
            sha256: spec.sha256.clone(),
            entrypoint: spec.entrypoint.clone(),
            grants: HostGrants::of(spec),
        };
        let cell = {
            let mut ready = self.ready.lock();
            if ready.len() >= MODULES_MAX && !ready.contains_key(&key) {
                ready.pop_first();
            }
            Arc::clone(ready.entry(key.clone()).or_default())
        };
        let loaded = cell.get_or_try_init(|| async {
            let bytes = ModuleRef::of(spec, dir)?.load(net, self.cache()).await?;
            let slots = Arc::clone(&self.wasm_engine.compile_slots).acquire_owned().await;
            let modules = Arc::clone(self);
            let loading = tokio::task::spawn_blocking(move || {
                // The compilation continues even if the caller is dropped, and keeps its slot.
                let _slot = slots;
                modules.load(&bytes, &key)
            });
            loading.await.map_err(|error| ToolContractError::final_failure(error.to_string()))?
        });
        loaded.await.map(Arc::clone)
    }

    /// Inspects, compiles and links a module. The compilation is slow unless the module is in the cache.
    fn load(&self, bytes: &[u8], key: &ModuleKey) -> Result<Arc<LoadedModule>, ToolContractError> {
        let found = inspect::inspect(bytes, key.grants).map_err(|why| invalid_module(&why))?;
        let entry = find_entry(&found, &key.entrypoint)?;
        let compiled = self.compile(bytes, found.is_component)?;
        let link_error = |error: wasmtime::Error| {
            invalid_module(&format!("the module cannot be linked: {error:#}"))
        };
        let ready = match compiled {
            CompiledModule::Core(module) => {
                let mut linker = Linker::new(module.engine());
                if key.grants.wasi {
                    preview1::link(&mut linker, &module).map_err(link_error)?;
                }
                host::link(&mut linker, key.grants).map_err(link_error)?;
                let pre = linker.instantiate_pre(&module).map_err(link_error)?;
                let has_initializer = found.exports.iter().any(|name| name == INITIALIZE);
                LoadedModule::Core { pre, entry, has_initializer }
            }
            CompiledModule::Component(component) => {
                let linker = component::create_linker(&component, key.grants);
                let pre =
                    linker.map_err(link_error)?.instantiate_pre(&component).map_err(link_error)?;
                LoadedModule::Component { pre, entry: component::Entry::of(&entry) }
            }
        };
        Ok(Arc::new(ready))
    }

    /// Returns the compiled module from memory, from the cache directory, or by compiling and storing it.
    pub(crate) fn compile(
        &self,
        bytes: &[u8],
        is_component: bool,
    ) -> Result<CompiledModule, ToolContractError> {
        let hash = sha256(bytes);
        let cache = || self.compiled.lock();
        if let Some(compiled) = cache().get(&hash).cloned() {
            return Ok(compiled);
        }
        let engine = self.wasm_engine.engine();
        let cached = self.cache().and_then(|cache| cache.find(engine, &hash, is_component));
        let compiled = match cached {
            Some(compiled) => compiled,
            None => {
                let link_error = |error: wasmtime::Error| {
                    invalid_module(&format!("the module cannot be compiled: {error:#}"))
                };
                let compiled = match is_component {
                    true => CompiledModule::Component(
                        Component::from_binary(engine, bytes).map_err(link_error)?,
                    ),
                    false => CompiledModule::Core(
                        Module::from_binary(engine, bytes).map_err(link_error)?,
                    ),
                };
                if let Some(cache) = self.cache() {
                    cache.store(&hash, &compiled);
                }
                compiled
            }
        };
        let mut cache = cache();
        if cache.len() >= MODULES_MAX {
            cache.pop_first();
        }
        cache.insert(hash, compiled.clone());
        Ok(compiled)
    }
}

/// Returns the name of the entry function: the requested one, or a well-known one if `name` is empty. Returns an error
/// if the module does not export it.
pub(crate) fn find_entry(found: &ModuleInfo, name: &str) -> Result<String, ToolContractError> {
    if found.is_component {
        return component::find_entry(found, name).ok_or_else(|| missing_entry_error(name));
    }
    let has = |name: &str| found.exports.iter().any(|export| export == name);
    match name {
        "" => ENTRIES.into_iter().find(|name| has(name)).map(str::to_owned),
        name => has(name).then(|| name.to_owned()),
    }
    .ok_or_else(|| missing_entry_error(name))
}

/// Creates the error of a module that does not export its entry function.
fn missing_entry_error(name: &str) -> ToolContractError {
    let name: String = name.chars().take(120).collect();
    let what = match name.as_str() {
        "" => "the module exports neither `_start` nor `run`: set the entry function".to_owned(),
        name => format!("the module does not export the function `{name}`"),
    };
    invalid_module(&what).detail("field", "wasm.entrypoint")
}
