//! Words that operators write, in one form.

use super::ResourceError;

/// The namespace of what names none.
const NAMESPACE_DEFAULT: &str = "default";

/// The namespace of what names none.
pub(super) fn namespace_default() -> String {
    NAMESPACE_DEFAULT.to_owned()
}

/// A namespace without space around it; empty is the one of what names none.
pub(super) fn namespace(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() { namespace_default() } else { text.to_owned() }
}

/// A name without space around it; there must be one.
pub(super) fn named(name: &str, fix: &str) -> Result<String, ResourceError> {
    let name = name.trim();
    if name.is_empty() {
        return Err(refusal("name", "it is missing", fix));
    }
    Ok(name.to_owned())
}

/// Trims words and keeps each once in its first spelling; case does not make another word.
pub(super) fn distinct(given: &[String]) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    let words = given.iter().map(|word| word.trim());
    words
        .filter(|word| !word.is_empty() && seen.insert(word.to_lowercase()))
        .map(str::to_owned)
        .collect()
}

/// Why something is refused, and what to do.
pub(super) fn refusal(
    path: &str,
    problem: impl Into<String>,
    fix: impl Into<String>,
) -> ResourceError {
    ResourceError { path: path.to_owned(), problem: problem.into(), fix: fix.into() }
}
