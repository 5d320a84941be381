//! Why a program did not run as it should.

use std::io;

use provost_core::ErrorKind;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::resource::IsolationMode;

/// Why a program did not run as it should.
#[derive(Debug, thiserror::Error)]
pub enum IsolationError {
    /// What the profile demands is not there. Nothing has run.
    #[error("isolation `{mode}` is not available: {why}")]
    Unavailable {
        /// The isolation that is demanded.
        mode: IsolationMode,
        /// What is missing, and what to do.
        why: String,
    },
    /// The sandbox could not be set up. Nothing has run.
    #[error("the sandbox `{backend}` could not be set up: {why}")]
    Setup {
        /// The backend.
        backend: &'static str,
        /// What it said.
        why: String,
    },
    /// There is no such program in the sandbox.
    #[error("there is no program `{0}` in the sandbox")]
    NoProgram(String),
    /// The job can never run like this.
    #[error("the job cannot run: {0}")]
    Job(String),
    /// The operating system says no.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

impl IsolationError {
    /// What the system said about something.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }

    /// What a program can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unavailable { .. } | Self::Setup { .. } | Self::Io { .. } => {
                ErrorKind::Unavailable
            }
            Self::NoProgram(_) => ErrorKind::NotFound,
            Self::Job(_) => ErrorKind::Invalid,
        }
    }

    /// The same in the words of the tool contract.
    pub fn fault(&self) -> ToolContractError {
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
            Self::Job(_) => ToolContractError::new(ToolErrorCode::InvalidInput, message),
            Self::Io { .. } => ToolContractError::new(ToolErrorCode::ExecutionFailed, message),
        }
    }
}
