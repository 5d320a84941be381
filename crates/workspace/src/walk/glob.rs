//! Globs over paths.

use globset::{GlobBuilder, GlobMatcher};

use crate::error::{Error, Result};
use crate::limits::GLOB_BYTES_MAX;
use crate::root::excerpt;

/// A glob that is matched against paths relative to the start of a walk.
#[derive(Debug)]
pub struct Glob(GlobMatcher);

impl Glob {
    /// Parses a glob. `*` does not match a slash. A glob without a slash matches names at any depth; a leading slash
    /// anchors it to the start of the walk.
    pub fn parse(glob: &str) -> Result<Self> {
        if glob.len() > GLOB_BYTES_MAX {
            return Err(Error::Argument(format!("the glob is longer than {GLOB_BYTES_MAX} bytes")));
        }
        let rooted = match glob.strip_prefix('/') {
            Some(rooted) => rooted.to_owned(),
            None if glob.contains('/') => glob.to_owned(),
            None => format!("**/{glob}"),
        };
        let built = GlobBuilder::new(&rooted).literal_separator(true).build();
        let built = built.map_err(|error| {
            Error::Argument(format!("`{}` is not a valid glob: {}", excerpt(glob), error.kind()))
        })?;
        Ok(Self(built.compile_matcher()))
    }

    /// Returns true if the path matches.
    pub fn matches(&self, path: &str) -> bool {
        self.0.is_match(path)
    }
}
