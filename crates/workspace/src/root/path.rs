//! A path inside a workspace, as a model writes it.
//!
//! Invariant: a value of this type has no `..`, no root and no empty name; where its links lead is checked when it is opened.

use provost_core::text::truncate_bytes;
use std::fmt;

use crate::error::{Error, Result};
use crate::limits::{NAME_BYTES_MAX, PATH_BYTES_MAX, PATH_NAMES_MAX};

/// Names from the root of a workspace downwards; none at all is the root itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InnerPath {
    text: String,
}

impl InnerPath {
    /// Reads a path. `.` and doubled slashes are taken as everywhere.
    pub fn parse(text: &str) -> Result<Self> {
        let refused = |why: &str| Error::Argument(format!("`{}` {why}", shortened(text)));
        if text.len() > PATH_BYTES_MAX {
            return Err(refused(&format!("is longer than {PATH_BYTES_MAX} bytes")));
        }
        if text.is_empty() {
            return Err(Error::Argument("the path is empty".to_owned()));
        }
        if text.starts_with('/') {
            return Err(refused("is absolute: give it relative to the workspace"));
        }
        if text.contains('\0') {
            return Err(refused("has a NUL, which no file name can have"));
        }
        let mut names = Vec::new();
        for name in text.split('/') {
            match name {
                "" | "." => {}
                ".." => return Err(refused("has `..`: no path leaves the workspace")),
                name if name.len() > NAME_BYTES_MAX => {
                    return Err(refused(&format!("has a name of over {NAME_BYTES_MAX} bytes")));
                }
                name => names.push(name),
            }
        }
        if names.len() > PATH_NAMES_MAX {
            return Err(refused(&format!("has more than {PATH_NAMES_MAX} names")));
        }
        Ok(Self { text: names.join("/") })
    }

    /// The root of the workspace.
    pub fn root() -> Self {
        Self::default()
    }

    /// The path for the operating system.
    pub fn as_str(&self) -> &str {
        if self.is_root() { "." } else { &self.text }
    }

    /// Is it the workspace itself?
    pub fn is_root(&self) -> bool {
        self.text.is_empty()
    }

    /// Its names, from the root downwards.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.text.split('/').filter(|name| !name.is_empty())
    }

    /// The directory that it is in, and its own name. The root is in no directory.
    pub fn split(&self) -> Option<(Self, &str)> {
        if self.is_root() {
            return None;
        }
        let (above, name) = self.text.rsplit_once('/').unwrap_or(("", &self.text));
        Some((Self { text: above.to_owned() }, name))
    }

    /// A path below this one; for names that a directory gave.
    pub fn join(&self, name: &str) -> Self {
        let text = if self.is_root() { name.to_owned() } else { format!("{}/{name}", self.text) };
        Self { text }
    }
}

impl fmt::Display for InnerPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Enough of a text to know it again.
pub fn shortened(text: &str) -> String {
    const SHOWN: usize = 200;
    truncate_bytes(text, SHOWN).escape_debug().to_string()
}
