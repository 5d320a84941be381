//! Errors of the runtime itself. Errors of one tool or one call are [`ToolContractError`]s.

use std::io;

use provost_core::ErrorKind;
use provost_core::contract::{ToolContractError, ToolErrorCode};

/// Error that prevents modules from running.
#[derive(Debug, thiserror::Error)]
pub enum WasmError {
    /// The engine does not work on this machine.
    #[error("WASM modules cannot run on this machine: {0}")]
    Engine(String),
    /// An operating system call failed.
    #[error("{operation}: {source}")]
    Io {
        /// Operation that failed.
        operation: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The directory for compiled modules is not private.
    #[error(
        "`{path}` cannot store compiled modules: {reason}; use a directory that only this user can access (mode 700)"
    )]
    Cache {
        /// Path of the directory.
        path: String,
        /// Reason for the rejection.
        reason: String,
    },
    /// The file is not a valid module of a tool.
    #[error("{0}")]
    Module(String),
    /// The engine is shutting down.
    #[error("the module engine is shutting down")]
    Closed,
}

impl WasmError {
    /// Returns the category of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Engine(_) | Self::Io { .. } | Self::Closed => ErrorKind::Unavailable,
            Self::Cache { .. } | Self::Module(_) => ErrorKind::Invalid,
        }
    }

    /// Converts the error to an error of the tool contract. There is no fallback to another isolation mode.
    pub(crate) fn unavailable(self) -> ToolContractError {
        ToolContractError::new(ToolErrorCode::IsolationUnavailable, self.to_string())
    }

    pub(crate) fn engine(error: wasmtime::Error) -> Self {
        Self::Engine(format!("{error:#}"))
    }

    pub(crate) fn io(operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { operation, source }
    }
}
