//! Normalization of texts in manifests.

use super::ResourceError;

/// Namespace of resources without a namespace.
const DEFAULT_NAMESPACE: &str = "default";

/// Returns the namespace of resources that name none.
pub(super) fn default_namespace() -> String {
    DEFAULT_NAMESPACE.to_owned()
}

/// Trims a namespace. An empty text means the default namespace.
pub(super) fn namespace(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() { default_namespace() } else { text.to_owned() }
}

/// Returns the trimmed name. Fails if it is empty.
pub(super) fn required_name(name: &str, fix: &str) -> Result<String, ResourceError> {
    let name = name.trim();
    if name.is_empty() {
        return Err(invalid_field("name", "it is missing", fix));
    }
    Ok(name.to_owned())
}

/// Trims names and removes duplicates that differ only in letter case. The first spelling remains.
pub(super) fn trimmed_distinct(given: &[String]) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    let names = given.iter().map(|name| name.trim());
    names
        .filter(|name| !name.is_empty() && seen.insert(name.to_lowercase()))
        .map(str::to_owned)
        .collect()
}

/// Creates an error with the problem and its fix.
pub(super) fn invalid_field(
    path: &str,
    problem: impl Into<String>,
    fix: impl Into<String>,
) -> ResourceError {
    ResourceError { path: path.to_owned(), problem: problem.into(), fix: fix.into() }
}
