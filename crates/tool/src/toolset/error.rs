//! Errors of toolsets.

use provost_core::ErrorKind;

use crate::ToolSpecError;

/// Error of creating, changing or listing a toolset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolsetError {
    /// A tool would have an invalid name.
    #[error("toolset `{set}`: {error}")]
    Name {
        /// Name of the toolset.
        set: String,
        /// Problem with the name.
        error: ToolSpecError,
    },
    /// Two tools would have the same name.
    #[error("toolset `{set}` would have two tools named `{tool}`: rename one of them")]
    Duplicate {
        /// Name of the toolset.
        set: String,
        /// Name of the tools.
        tool: String,
    },
    /// A tool that should be renamed does not exist.
    #[error("toolset `{set}` has no tool `{tool}` to rename")]
    Unknown {
        /// Name of the toolset.
        set: String,
        /// Name of the missing tool.
        tool: String,
    },
    /// The toolset has too many tools.
    #[error("toolset `{set}` has more than {tools_max} tools: split it")]
    Full {
        /// Name of the toolset.
        set: String,
        /// Maximum number of tools.
        tools_max: usize,
    },
}

impl ToolsetError {
    /// Returns the error kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Name { .. } => ErrorKind::Invalid,
            Self::Duplicate { .. } => ErrorKind::Conflict,
            Self::Unknown { .. } => ErrorKind::NotFound,
            Self::Full { .. } => ErrorKind::Exhausted,
        }
    }
}
