//! The runtime of declared WASM modules. It is created only if a module is declared.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_core::Env;
use provost_net::NetPolicy;
#[cfg(feature = "wasm")]
use provost_resource::SourceLocation;
use provost_resource::{ManifestError, ResourceSet};
use provost_sandbox::SelfTestCase;
use provost_tool::{AuditSink, RuntimeRegistry};

/// True if this program was built with the feature `wasm` and can run WASM modules.
pub const HAS_WASM: bool = cfg!(feature = "wasm");

/// Error message of builds without the feature.
#[cfg(not(feature = "wasm"))]
const WITHOUT_WASM: &str = "this program was built without WASM support";

/// Returns the reason that modules cannot run: this program was built without the feature `wasm`.
#[cfg(not(feature = "wasm"))]
pub async fn examine_modules() -> Result<Vec<SelfTestCase>, String> {
    Err(WITHOUT_WASM.to_owned())
}

/// Tests the isolation of modules with a module for each guarantee that violates it. Returns the reason if modules
/// cannot run.
#[cfg(feature = "wasm")]
pub async fn examine_modules() -> Result<Vec<SelfTestCase>, String> {
    provost_wasm::self_test().await.map_err(|error| error.to_string())
}

/// Directories of modules.
#[derive(Debug, Clone, Default)]
pub struct ModuleDirs {
    /// Directory of module files. Paths in manifests are relative to it.
    pub files: Option<PathBuf>,
    /// Directory of compiled modules, imported modules and the key-value data of tools. No other program may use it.
    pub data: Option<PathBuf>,
}

impl ModuleDirs {
    /// Returns an error, because this program was built without the feature `wasm`.
    #[cfg(not(feature = "wasm"))]
    pub fn import(&self, file: &Path) -> Result<String, ManifestError> {
        Err(ManifestError::File { file: file.to_owned(), problem: WITHOUT_WASM.to_owned() })
    }

    /// Copies a module into the data directory and returns its SHA-256. Manifests refer to it as `blob:<sha256>`.
    /// Returns an error if the module is invalid or too large.
    #[cfg(feature = "wasm")]
    pub fn import(&self, file: &Path) -> Result<String, ManifestError> {
        use std::io::Read as _;

        use provost_wasm::limits::MODULE_BYTES_MAX;
        use provost_wasm::{WasmOptions, WasmRuntime};

        let manifest_error =
            |problem: String| ManifestError::File { file: file.to_owned(), problem };
        let mut module = Vec::new();
        // One byte more than the limit is read to detect a module that is too large.
        let read = std::fs::File::open(file)
            .and_then(|file| file.take(MODULE_BYTES_MAX + 1).read_to_end(&mut module));
        read.map_err(|error| manifest_error(error.to_string()))?;
        let options = WasmOptions { cache: self.data.clone(), ..WasmOptions::default() };
        let imported = WasmRuntime::open(options).and_then(|runtime| runtime.store_module(&module));
        imported.map_err(|error| manifest_error(error.to_string()))
    }
}

/// Settings of the runtime of modules.
#[cfg_attr(
    not(feature = "wasm"),
    expect(dead_code, reason = "modules do not run without the feature")
)]
pub(crate) struct WasmRuntimeBuilder<'a> {
    pub(crate) dirs: ModuleDirs,
    pub(crate) network: NetPolicy,
    pub(crate) allow_private_tools: bool,
    pub(crate) audit: Option<Arc<dyn AuditSink>>,
    pub(crate) env: &'a Env,
}

impl WasmRuntimeBuilder<'_> {
    /// Adds nothing: without the feature, calls of modules fail.
    #[cfg(not(feature = "wasm"))]
    pub(crate) fn add(
        self,
        _runtimes: &mut RuntimeRegistry,
        _declared: &ResourceSet,
    ) -> Result<(), ManifestError> {
        Ok(())
    }

    /// Adds the runtime of modules if a module is declared.
    #[cfg(feature = "wasm")]
    pub(crate) fn add(
        self,
        runtimes: &mut RuntimeRegistry,
        declared: &ResourceSet,
    ) -> Result<(), ManifestError> {
        use provost_core::resource::ToolType;
        use provost_wasm::{FileKeyValueStore, WasmOptions, WasmRuntime};

        if !declared.all_tools().any(|(_, tool)| tool.resource.kind == ToolType::Wasm) {
            return Ok(());
        }
        let unusable = |problem: String| {
            ManifestError::cannot_build(
                &SourceLocation::default(),
                "the runtime of modules".to_owned(),
                problem,
            )
        };
        let mut options = WasmOptions {
            modules: self.dirs.files,
            cache: self.dirs.data.clone(),
            network: self.network,
            allow_private_tools: self.allow_private_tools,
            log: crate::sandbox::audit_log(self.audit, self.env.clone()),
            env: self.env.clone(),
            ..WasmOptions::default()
        };
        if let Some(data) = self.dirs.data {
            let values = FileKeyValueStore::open(&data.join("values"));
            options.kv = Arc::new(values.map_err(|error| unusable(error.to_string()))?);
        }
        let runtime = WasmRuntime::open(options).map_err(|error| unusable(error.to_string()))?;
        runtimes.add(Arc::new(runtime)).map_err(|error| unusable(error.to_string()))
    }
}
