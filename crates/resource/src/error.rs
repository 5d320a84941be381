//! Source locations, and errors of manifests.

use std::fmt;
use std::path::PathBuf;

use provost_core::contract::ToolContractError;
use provost_core::resource::ResourceError;

/// Location of a resource in its source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceLocation {
    /// File of the resource. `None` if it was parsed from a text.
    pub file: Option<PathBuf>,
    /// Line, counted from 1.
    pub line: usize,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}:{}", file.display(), self.line),
            None => write!(f, "line {}", self.line),
        }
    }
}

/// Error while reading, validating or building manifests.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A file or directory cannot be read.
    #[error("{file}: {problem}", file = file.display())]
    File {
        /// Path of the file or directory.
        file: PathBuf,
        /// Reason.
        problem: String,
    },
    /// The text of a file is neither valid YAML nor valid JSON.
    #[error("{location}: {problem}")]
    Syntax {
        /// Location of the problem.
        location: SourceLocation,
        /// Description of the problem.
        problem: String,
    },
    /// A resource is invalid.
    #[error("{location}: {error}")]
    Resource {
        /// Location of the resource.
        location: SourceLocation,
        /// Description of the problem.
        error: ResourceError,
    },
    /// Two resources of one kind have the same name.
    #[error("{second}: {kind} `{name}` is already declared at {first}; rename or remove one")]
    Duplicate {
        /// Kind of the resources.
        kind: &'static str,
        /// Namespace and name of the resources.
        name: String,
        /// Location of the first resource.
        first: Box<SourceLocation>,
        /// Location of the second resource.
        second: Box<SourceLocation>,
    },
    /// A resource refers to a missing resource.
    #[error(
        "{location}: {subject} refers to {kind} `{name}`, which is not declared in namespace `{namespace}`"
    )]
    Missing {
        /// Location of the reference.
        location: SourceLocation,
        /// Resource that contains the reference.
        subject: String,
        /// Kind of the missing resource.
        kind: &'static str,
        /// Name of the missing resource.
        name: String,
        /// Namespace that was searched.
        namespace: String,
    },
    /// There are more resources than the limit.
    #[error("{0}")]
    TooManyResources(String),
    /// A tool or an MCP server cannot be built from its resource.
    #[error("{location}: {subject}: {problem}")]
    CannotBuild {
        /// Location of the resource.
        location: SourceLocation,
        /// Kind and name of the resource.
        subject: String,
        /// Reason.
        problem: String,
    },
}

impl ManifestError {
    /// Creates a [`CannotBuild`](Self::CannotBuild) error for a tool or MCP server.
    pub fn cannot_build(
        location: &SourceLocation,
        subject: String,
        problem: impl fmt::Display,
    ) -> Self {
        Self::CannotBuild { location: location.clone(), subject, problem: problem.to_string() }
    }

    /// Creates a [`CannotBuild`](Self::CannotBuild) error with the message of a tool runtime.
    pub fn from_tool_error(
        location: &SourceLocation,
        subject: String,
        error: &ToolContractError,
    ) -> Self {
        Self::cannot_build(location, subject, &error.message)
    }
}
