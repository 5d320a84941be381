//! Words that operators write, in one form.

use super::ResourceError;

/// The namespace of what names none.
const DEFAULT_NAMESPACE: &str = "default";

/// The namespace of what names none.
pub(super) fn default_namespace() -> String {
    DEFAULT_NAMESPACE.to_owned()
}

/// A namespace without space around it; empty is the one of what names none.
pub(super) fn namespace(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() { default_namespace() } else { text.to_owned() }
}

/// A name without space around it; there must be one.
pub(super) fn required_name(name: &str, fix: &str) -> Result<String, ResourceError> {
    let name = name.trim();
    if name.is_empty() {
        return Err(invalid_field("name", "it is missing", fix));
    }
    Ok(name.to_owned())
}

/// Trims words and keeps each once in its first spelling; case does not make another word.
pub(super) fn trimmed_distinct(given: &[String]) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    let names = given.iter().map(|name| name.trim());
    names
        .filter(|name| !name.is_empty() && seen.insert(name.to_lowercase()))
        .map(str::to_owned)
        .collect()
}

/// Why something is refused, and what to do.
pub(super) fn invalid_field(
    path: &str,
    problem: impl Into<String>,
    fix: impl Into<String>,
) -> ResourceError {
    ResourceError { path: path.to_owned(), problem: problem.into(), fix: fix.into() }
}
