//! Which runtime reaches a tool: by its type and by the isolation that it demands.
//!
//! Invariant: a tool never runs in another isolation than the one it demands, neither a weaker nor a different one.

use std::collections::BTreeMap;
use std::sync::Arc;

use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::resource::{IsolationMode, ToolResource, ToolType};

use crate::ToolRuntime;

/// Why a set of runtimes cannot be like this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Two for the same.
    #[error("there are two runtimes for `{kind}` with isolation `{isolation}`: add one of them")]
    Duplicate {
        /// The type of tools.
        kind: ToolType,
        /// The isolation.
        isolation: IsolationMode,
    },
    /// A name for whatever is used is not an isolation of its own.
    #[error("`{0}` isolates nothing by itself: use `process`, `wasm` or `container`")]
    NoIsolation(IsolationMode),
}

/// The runtimes of a program.
#[derive(Clone, Default)]
pub struct Runtimes {
    known: BTreeMap<(ToolType, IsolationMode), Arc<dyn ToolRuntime>>,
    sandbox: Option<IsolationMode>,
}

impl Runtimes {
    /// Adds a runtime.
    pub fn add(&mut self, runtime: Arc<dyn ToolRuntime>) -> Result<(), RegistryError> {
        let (kind, isolation) = (runtime.kind(), runtime.isolation());
        if isolation == IsolationMode::Sandboxed {
            return Err(RegistryError::NoIsolation(isolation));
        }
        if self.known.contains_key(&(kind, isolation)) {
            return Err(RegistryError::Duplicate { kind, isolation });
        }
        self.known.insert((kind, isolation), runtime);
        Ok(())
    }

    /// Names what `sandboxed` means here: what the operator uses for tools that are not trusted.
    pub fn sandbox_by(&mut self, isolation: IsolationMode) -> Result<(), RegistryError> {
        if matches!(isolation, IsolationMode::None | IsolationMode::Sandboxed) {
            return Err(RegistryError::NoIsolation(isolation));
        }
        self.sandbox = Some(isolation);
        Ok(())
    }

    /// The runtime for a tool. There is no second best.
    pub fn select(&self, tool: &ToolResource) -> Result<&Arc<dyn ToolRuntime>, ToolContractError> {
        let (kind, demanded) = (tool.kind, tool.isolation());
        let isolation = match (demanded, self.sandbox) {
            (IsolationMode::Sandboxed, Some(sandbox)) => sandbox,
            (IsolationMode::Sandboxed, None) => {
                let message = format!(
                    "tool `{}` must be sandboxed and no sandbox is set up: name one or declare its isolation",
                    tool.name
                );
                return Err(unavailable(message, demanded));
            }
            (other, _) => other,
        };
        if let Some(runtime) = self.known.get(&(kind, isolation)) {
            return Ok(runtime);
        }
        let known = self.known.keys().any(|(other, _)| *other == kind);
        if isolation == IsolationMode::None && !known {
            let message = format!("tools of type `{kind}` cannot be run here: `{}`", tool.name);
            return Err(ToolContractError::new(ToolErrorCode::UnsupportedTool, message)
                .detail("type", kind.as_str()));
        }
        let message = format!(
            "tool `{}` of type `{kind}` demands isolation `{isolation}`, which is not there",
            tool.name
        );
        Err(unavailable(message, demanded).detail("type", kind.as_str()))
    }

    /// Returns true if tools of this type can run here.
    pub fn supports(&self, kind: ToolType) -> bool {
        self.known.keys().any(|(known, _)| *known == kind)
    }

    /// Returns true if a runtime has this isolation.
    pub fn isolates(&self, isolation: IsolationMode) -> bool {
        let real = match isolation {
            IsolationMode::Sandboxed => self.sandbox,
            other => Some(other),
        };
        self.known.keys().any(|(_, known)| Some(*known) == real)
    }
}

fn unavailable(message: String, demanded: IsolationMode) -> ToolContractError {
    ToolContractError::new(ToolErrorCode::IsolationUnavailable, message)
        .detail("isolation", demanded.as_str())
}
