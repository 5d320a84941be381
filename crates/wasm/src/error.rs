//! Why modules cannot be run here at all. What is wrong with one tool or one call is a [`ToolContractError`].

use std::io;

use provost_core::ErrorKind;
use provost_core::contract::{ToolContractError, ToolErrorCode};

/// Why modules cannot be run here.
#[derive(Debug, thiserror::Error)]
pub enum WasmError {
    /// The machine does not work on this computer.
    #[error("WASM modules cannot be run on this machine: {0}")]
    Engine(String),
    /// Something of the system is missing.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The directory for compiled modules cannot be trusted.
    #[error(
        "`{path}` cannot keep compiled modules: {why}; give a directory of your own that nobody else may use (mode 700)"
    )]
    Cache {
        /// The directory.
        path: String,
        /// Why not.
        why: String,
    },
    /// It is no module that a tool could be.
    #[error("{0}")]
    Module(String),
    /// The machine is being taken down.
    #[error("the machine for modules is closed")]
    Closed,
}

impl WasmError {
    /// What sort of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Engine(_) | Self::Io { .. } | Self::Closed => ErrorKind::Unavailable,
            Self::Cache { .. } | Self::Module(_) => ErrorKind::Invalid,
        }
    }

    /// The same in the words of the tool contract: nothing else runs in place of a machine that is not there.
    pub(crate) fn unavailable(self) -> ToolContractError {
        ToolContractError::new(ToolErrorCode::IsolationUnavailable, self.to_string())
    }

    pub(crate) fn engine(error: wasmtime::Error) -> Self {
        Self::Engine(format!("{error:#}"))
    }

    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
