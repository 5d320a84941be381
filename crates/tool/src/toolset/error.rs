//! Why a toolset cannot be made, or cannot give its tools.

use provost_core::ErrorKind;

use crate::SpecError;

/// Why a toolset cannot be made, or cannot give its tools.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolsetError {
    /// A name that some vendor would refuse.
    #[error("toolset `{set}`: {error}")]
    Name {
        /// Which set.
        set: String,
        /// What is wrong with the name.
        error: SpecError,
    },
    /// Two tools would have one name.
    #[error("toolset `{set}` would have two tools called `{tool}`: give one of them another name")]
    Duplicate {
        /// Which set.
        set: String,
        /// The name.
        tool: String,
    },
    /// A tool that is to be renamed does not exist.
    #[error("toolset `{set}` has no tool `{tool}` to rename")]
    Unknown {
        /// Which set.
        set: String,
        /// The name.
        tool: String,
    },
    /// The set is full.
    #[error("toolset `{set}` has more than {tools_max} tools: split it")]
    Full {
        /// Which set.
        set: String,
        /// How many it may have.
        tools_max: usize,
    },
}

impl ToolsetError {
    /// The shared kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Name { .. } => ErrorKind::Invalid,
            Self::Duplicate { .. } => ErrorKind::Conflict,
            Self::Unknown { .. } => ErrorKind::NotFound,
            Self::Full { .. } => ErrorKind::Exhausted,
        }
    }
}
