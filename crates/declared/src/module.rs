//! The machine for declared WASM modules, set up only where there are any.

use std::path::PathBuf;
use std::sync::Arc;

use provost_core::Env;
use provost_net::NetPolicy;
use provost_tool::{AuditSink, Runtimes};

use crate::{DeclareError, Declared};

/// True if this program can run WASM modules: it was built with the feature `wasm`.
pub const HAS_WASM: bool = cfg!(feature = "wasm");

/// Where modules are, and where what is made of them is kept.
#[derive(Debug, Clone, Default)]
pub struct ModulePlaces {
    /// The directory of module files; a manifest names them from here on.
    pub files: Option<PathBuf>,
    /// A directory for compiled modules, fetched ones and the values that tools keep. Nobody else may use it.
    pub kept: Option<PathBuf>,
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

        if !declared.tools.values().any(|tool| tool.what.kind == ToolType::Wasm) {
            return Ok(());
        }
        let unusable = |problem: String| {
            DeclareError::unusable(
                &crate::Place::default(),
                "the runtime of modules".to_owned(),
                problem,
            )
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
