//! Where something was declared, and what is wrong with it.

use std::fmt;
use std::path::PathBuf;

use provost_core::contract::ToolContractError;
use provost_core::resource::ResourceError;

/// Where something was declared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The file, if it came from one.
    pub file: Option<PathBuf>,
    /// The line, counted from one.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}:{}", file.display(), self.line),
            None => write!(f, "line {}", self.line),
        }
    }
}

/// Why what was declared cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeclareError {
    /// A file cannot be read.
    #[error("{file}: {problem}", file = file.display())]
    File {
        /// The file or the directory.
        file: PathBuf,
        /// Why.
        problem: String,
    },
    /// It is neither YAML nor JSON.
    #[error("{place}: {problem}")]
    Syntax {
        /// Where.
        place: Place,
        /// What is wrong.
        problem: String,
    },
    /// A resource is not sound.
    #[error("{place}: {error}")]
    Resource {
        /// Where.
        place: Place,
        /// What is wrong.
        error: ResourceError,
    },
    /// Two resources have one name.
    #[error("{second}: {kind} `{name}` is declared already at {first}; rename or remove one")]
    Duplicate {
        /// The kind of both.
        kind: &'static str,
        /// The namespace and the name of both.
        name: String,
        /// Where the first is.
        first: Box<Place>,
        /// Where the second is.
        second: Box<Place>,
    },
    /// A resource names another that is not there.
    #[error(
        "{place}: {what} names the {kind} `{name}`, which is not declared in namespace `{namespace}`"
    )]
    Missing {
        /// Where.
        place: Place,
        /// What names it.
        what: String,
        /// The kind of what is named.
        kind: &'static str,
        /// What is named.
        name: String,
        /// Where it would have to be.
        namespace: String,
    },
    /// There is more than is read.
    #[error("{0}")]
    TooMuch(String),
    /// A tool or a server cannot be set up.
    #[error("{place}: {what}: {problem}")]
    Unusable {
        /// Where.
        place: Place,
        /// What.
        what: String,
        /// Why.
        problem: String,
    },
}

impl DeclareError {
    /// A tool or a server cannot be set up.
    pub fn unusable(place: &Place, what: String, problem: impl fmt::Display) -> Self {
        Self::Unusable { place: place.clone(), what, problem: problem.to_string() }
    }

    /// The same, for what a tool runtime says.
    pub fn fault(place: &Place, what: String, fault: &ToolContractError) -> Self {
        Self::unusable(place, what, &fault.message)
    }
}
