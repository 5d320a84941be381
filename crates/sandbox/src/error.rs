//! Errors of sandboxes.

use std::io;

use provost_core::ErrorKind;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::resource::IsolationMode;

/// Error of a command that was not run, or whose result is unknown.
#[derive(Debug, thiserror::Error)]
pub enum IsolationError {
    /// No backend provides what the profile requires. The command did not run.
    #[error("isolation `{mode}` is not available: {reason}")]
    Unavailable {
        /// Isolation mode of the profile.
        mode: IsolationMode,
        /// Missing prerequisite and how to provide it.
        reason: String,
    },
    /// The sandbox could not be set up. The command did not run.
    #[error("cannot set up the sandbox `{backend}`: {reason}")]
    Setup {
        /// Name of the backend.
        backend: &'static str,
        /// Error output of the backend.
        reason: String,
    },
    /// The program does not exist in the sandbox.
    #[error("the program `{0}` does not exist in the sandbox")]
    NoProgram(String),
    /// The command, its profile or its state is invalid.
    #[error("the command cannot run: {0}")]
    Invalid(String),
    /// An operating system call failed.
    #[error("{operation}: {source}")]
    Io {
        /// Operation that failed.
        operation: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl IsolationError {
    /// Returns a function that wraps an I/O error of an operation.
    pub(crate) fn io(operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { operation, source }
    }

    /// Returns the category of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unavailable { .. } | Self::Setup { .. } | Self::Io { .. } => {
                ErrorKind::Unavailable
            }
            Self::NoProgram(_) => ErrorKind::NotFound,
            Self::Invalid(_) => ErrorKind::Invalid,
        }
    }

    /// Converts the error into an error of the tool contract, such as [`ToolErrorCode::IsolationUnavailable`].
    pub fn to_contract_error(&self) -> ToolContractError {
        let message = self.to_string();
        match self {
            Self::Unavailable { mode, .. } => {
                ToolContractError::new(ToolErrorCode::IsolationUnavailable, message)
                    .detail("isolation", mode.as_str())
            }
            Self::Setup { backend, .. } => {
                ToolContractError::new(ToolErrorCode::IsolationUnavailable, message)
                    .detail("backend", *backend)
            }
            Self::NoProgram(_) => {
                ToolContractError::new(ToolErrorCode::RuntimePolicyInvalid, message)
            }
            Self::Invalid(_) => ToolContractError::new(ToolErrorCode::InvalidInput, message),
            Self::Io { .. } => ToolContractError::new(ToolErrorCode::ExecutionFailed, message),
        }
    }
}
