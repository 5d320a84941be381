//! A path inside a workspace, as a model writes it.
//!
//! Invariant: a path contains no `..`, no root and no empty name. Its links are checked when it is opened.

use provost_core::text::truncate_bytes;
use std::fmt;

use crate::error::{Error, Result};
use crate::limits::{NAME_BYTES_MAX, PATH_BYTES_MAX, PATH_NAMES_MAX};

/// Names relative to the root of a workspace. Empty for the root itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkspacePath {
    text: String,
}

impl WorkspacePath {
    /// Parses a path relative to the workspace. Ignores `.` and repeated slashes. Fails for absolute paths, `..`, and
    /// paths or names that are too long.
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = |reason: &str| Error::Argument(format!("`{}` {reason}", excerpt(text)));
        if text.len() > PATH_BYTES_MAX {
            return Err(invalid(&format!("is longer than {PATH_BYTES_MAX} bytes")));
        }
        if text.is_empty() {
            return Err(Error::Argument("the path is empty".to_owned()));
        }
        if text.starts_with('/') {
            return Err(invalid("is absolute: use a path relative to the workspace"));
        }
        if text.contains('\0') {
            return Err(invalid("contains a NUL byte"));
        }
        let mut names = Vec::new();
        for name in text.split('/') {
            match name {
                "" | "." => {}
                ".." => return Err(invalid("contains `..`: a path cannot leave the workspace")),
                name if name.len() > NAME_BYTES_MAX => {
                    return Err(invalid(&format!("has a name longer than {NAME_BYTES_MAX} bytes")));
                }
                name => names.push(name),
            }
        }
        if names.len() > PATH_NAMES_MAX {
            return Err(invalid(&format!("has more than {PATH_NAMES_MAX} names")));
        }
        Ok(Self { text: names.join("/") })
    }

    /// Returns the root of the workspace.
    pub fn root() -> Self {
        Self::default()
    }

    /// Returns the path for the operating system: `.` for the root.
    pub fn as_str(&self) -> &str {
        if self.is_root() { "." } else { &self.text }
    }

    /// Returns true for the root of the workspace.
    pub fn is_root(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the names, beginning at the root.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.text.split('/').filter(|name| !name.is_empty())
    }

    /// Returns the parent directory and the last name. `None` for the root.
    pub fn split(&self) -> Option<(Self, &str)> {
        if self.is_root() {
            return None;
        }
        let (parent, name) = self.text.rsplit_once('/').unwrap_or(("", &self.text));
        Some((Self { text: parent.to_owned() }, name))
    }

    /// Appends a name that a directory listing returned.
    pub fn join(&self, name: &str) -> Self {
        let text = if self.is_root() { name.to_owned() } else { format!("{}/{name}", self.text) };
        Self { text }
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns an escaped excerpt of a text for messages.
pub fn excerpt(text: &str) -> String {
    const EXCERPT_BYTES: usize = 200;
    truncate_bytes(text, EXCERPT_BYTES).escape_debug().to_string()
}
