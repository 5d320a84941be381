//! Selection of a runtime by the type and the isolation of a tool.
//!
//! Invariant: a tool never runs with another isolation than the one it requires.

use std::collections::BTreeMap;
use std::sync::Arc;

use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::resource::{IsolationMode, ToolResource, ToolType};

use crate::ToolRuntime;

/// Error of registering a runtime or a default sandbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// A runtime for this type and isolation is already registered.
    #[error("a runtime for `{kind}` with isolation `{isolation}` is already registered")]
    Duplicate {
        /// Type of tools.
        kind: ToolType,
        /// Isolation of the runtime.
        isolation: IsolationMode,
    },
    /// `none` and `sandboxed` do not name an isolation that a runtime can have here.
    #[error("`{0}` is not an isolation of its own: use `process`, `wasm` or `container`")]
    NoIsolation(IsolationMode),
}

/// Tool runtimes of a process, by tool type and isolation.
#[derive(Clone, Default)]
pub struct RuntimeRegistry {
    runtimes: BTreeMap<(ToolType, IsolationMode), Arc<dyn ToolRuntime>>,
    sandbox: Option<IsolationMode>,
}

impl RuntimeRegistry {
    /// Registers a runtime. Returns an error if a runtime for this type and isolation exists.
    pub fn add(&mut self, runtime: Arc<dyn ToolRuntime>) -> Result<(), RegistryError> {
        let (kind, isolation) = (runtime.kind(), runtime.isolation());
        if isolation == IsolationMode::Sandboxed {
            return Err(RegistryError::NoIsolation(isolation));
        }
        if self.runtimes.contains_key(&(kind, isolation)) {
            return Err(RegistryError::Duplicate { kind, isolation });
        }
        self.runtimes.insert((kind, isolation), runtime);
        Ok(())
    }

    /// Sets the isolation that `sandboxed` means. Returns an error if the value is not a concrete isolation.
    pub fn set_default_sandbox(&mut self, isolation: IsolationMode) -> Result<(), RegistryError> {
        if matches!(isolation, IsolationMode::None | IsolationMode::Sandboxed) {
            return Err(RegistryError::NoIsolation(isolation));
        }
        self.sandbox = Some(isolation);
        Ok(())
    }

    /// Returns the runtime for the type and the isolation of a tool. Returns an error if there is none; there is no
    /// fallback to another isolation.
    pub fn select(&self, tool: &ToolResource) -> Result<&Arc<dyn ToolRuntime>, ToolContractError> {
        let (kind, demanded) = (tool.kind, tool.isolation());
        let isolation = match (demanded, self.sandbox) {
            (IsolationMode::Sandboxed, Some(sandbox)) => sandbox,
            (IsolationMode::Sandboxed, None) => {
                let message = format!(
                    "tool `{}` requires a sandbox, but no default sandbox is configured: configure one or declare its isolation",
                    tool.name
                );
                return Err(unavailable_error(message, demanded));
            }
            (other, _) => other,
        };
        if let Some(runtime) = self.runtimes.get(&(kind, isolation)) {
            return Ok(runtime);
        }
        let known = self.runtimes.keys().any(|(other, _)| *other == kind);
        if isolation == IsolationMode::None && !known {
            let message = format!("no runtime for tools of type `{kind}`: `{}`", tool.name);
            return Err(ToolContractError::new(ToolErrorCode::UnsupportedTool, message)
                .detail("type", kind.as_str()));
        }
        let message = format!(
            "tool `{}` of type `{kind}` requires isolation `{isolation}`, which is not available",
            tool.name
        );
        Err(unavailable_error(message, demanded).detail("type", kind.as_str()))
    }

    /// Returns true if tools of this type can run here.
    pub fn supports(&self, kind: ToolType) -> bool {
        self.runtimes.keys().any(|(known, _)| *known == kind)
    }

    /// Returns true if a registered runtime has this isolation.
    pub fn supports_isolation(&self, isolation: IsolationMode) -> bool {
        let real = match isolation {
            IsolationMode::Sandboxed => self.sandbox,
            other => Some(other),
        };
        self.runtimes.keys().any(|(_, known)| Some(*known) == real)
    }
}

fn unavailable_error(message: String, demanded: IsolationMode) -> ToolContractError {
    ToolContractError::new(ToolErrorCode::IsolationUnavailable, message)
        .detail("isolation", demanded.as_str())
}
