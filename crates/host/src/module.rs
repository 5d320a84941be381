//! The machine for declared WASM modules, set up only where there are any.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_core::Env;
use provost_net::NetPolicy;
#[cfg(feature = "wasm")]
use provost_resource::Place;
use provost_resource::{DeclareError, Declared};
use provost_sandbox::Trial;
use provost_tool::{AuditSink, Runtimes};

/// True if this program can run WASM modules: it was built with the feature `wasm`.
pub const HAS_WASM: bool = cfg!(feature = "wasm");

/// Why there are no modules where the feature is missing.
#[cfg(not(feature = "wasm"))]
const WITHOUT_WASM: &str = "this program was built without WASM";

/// Tries what keeps modules in, by running some. An `Err` says why there is nothing to try.
#[cfg(not(feature = "wasm"))]
pub async fn examine_modules() -> Result<Vec<Trial>, String> {
    Err(WITHOUT_WASM.to_owned())
}

/// Tries what keeps modules in, by running some. An `Err` says why there is nothing to try.
#[cfg(feature = "wasm")]
pub async fn examine_modules() -> Result<Vec<Trial>, String> {
    provost_wasm::examine().await.map_err(|error| error.to_string())
}

/// Where modules are, and where what is made of them is kept.
#[derive(Debug, Clone, Default)]
pub struct ModulePlaces {
    /// The directory of module files; a manifest names them from here on.
    pub files: Option<PathBuf>,
    /// A directory for compiled modules, fetched ones and the values that tools keep. Nobody else may use it.
    pub kept: Option<PathBuf>,
}

impl ModulePlaces {
    /// Without the feature nothing could look at it.
    #[cfg(not(feature = "wasm"))]
    pub fn keep(&self, file: &Path) -> Result<String, DeclareError> {
        Err(DeclareError::File { file: file.to_owned(), problem: WITHOUT_WASM.to_owned() })
    }

    /// Keeps the module of a file, to be named as `blob:` and its SHA-256, which is given back.
    #[cfg(feature = "wasm")]
    pub fn keep(&self, file: &Path) -> Result<String, DeclareError> {
        use std::io::Read as _;

        use provost_wasm::limits::MODULE_BYTES_MAX;
        use provost_wasm::{WasmOptions, WasmRuntime};

        let refused = |problem: String| DeclareError::File { file: file.to_owned(), problem };
        let mut module = Vec::new();
        // One byte more than there may be is enough to see that there is too much.
        let read = std::fs::File::open(file)
            .and_then(|file| file.take(MODULE_BYTES_MAX + 1).read_to_end(&mut module));
        read.map_err(|error| refused(error.to_string()))?;
        let options = WasmOptions { cache: self.kept.clone(), ..WasmOptions::default() };
        let kept = WasmRuntime::open(options).and_then(|runtime| runtime.keep(&module));
        kept.map_err(|error| refused(error.to_string()))
    }
}

/// What modules need.
#[cfg_attr(
    not(feature = "wasm"),
    expect(dead_code, reason = "nothing runs modules without the feature")
)]
pub(crate) struct Modules<'a> {
    pub(crate) places: ModulePlaces,
    pub(crate) network: NetPolicy,
    pub(crate) allow_private_tools: bool,
    pub(crate) audit: Option<Arc<dyn AuditSink>>,
    pub(crate) env: &'a Env,
}

impl Modules<'_> {
    /// Without the feature there is no machine, and whoever demands one is refused.
    #[cfg(not(feature = "wasm"))]
    pub(crate) fn add(
        self,
        _runtimes: &mut Runtimes,
        _declared: &Declared,
    ) -> Result<(), DeclareError> {
        Ok(())
    }

    /// Adds the runtime of modules, if any are declared.
    #[cfg(feature = "wasm")]
    pub(crate) fn add(
        self,
        runtimes: &mut Runtimes,
        declared: &Declared,
    ) -> Result<(), DeclareError> {
        use provost_core::resource::ToolType;
        use provost_wasm::{FileKeyValues, WasmOptions, WasmRuntime};

        if !declared.all_tools().any(|(_, tool)| tool.what.kind == ToolType::Wasm) {
            return Ok(());
        }
        let unusable = |problem: String| {
            DeclareError::unusable(&Place::default(), "the runtime of modules".to_owned(), problem)
        };
        let mut options = WasmOptions {
            modules: self.places.files,
            cache: self.places.kept.clone(),
            network: self.network,
            allow_private_tools: self.allow_private_tools,
            log: crate::program::log(self.audit, self.env.clone()),
            env: self.env.clone(),
            ..WasmOptions::default()
        };
        if let Some(kept) = self.places.kept {
            let values = FileKeyValues::open(&kept.join("values"));
            options.kv = Arc::new(values.map_err(|error| unusable(error.to_string()))?);
        }
        let runtime = WasmRuntime::open(options).map_err(|error| unusable(error.to_string()))?;
        runtimes.add(Arc::new(runtime)).map_err(|error| unusable(error.to_string()))
    }
}
