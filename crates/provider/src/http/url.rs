//! The address of an API: what it may look like, and what of it may be shown.

use reqwest::Url;

use super::BuildError;

/// Parses and checks a base URL. Errors show neither user name, password nor query.
pub(super) fn base_url(text: &str) -> Result<Url, BuildError> {
    let text = text.trim();
    let refused = |reason: &str| {
        Err(BuildError::BaseUrl { url: redact_url(text), reason: reason.to_owned() })
    };
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(cause) => return refused(&cause.to_string()),
    };
    if !url.username().is_empty() || url.password().is_some() {
        return refused("it holds a user name or password; give the key to the builder");
    }
    if !matches!(url.scheme(), "http" | "https") {
        return refused("it must begin with http:// or https://");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return refused("it must have no query and no fragment");
    }
    Ok(url)
}

/// Removes user name, password and everything from a query on.
///
/// It works on the text, because an address that cannot be parsed can hold a password too. A password may hold any character,
/// so everything up to the last `@` is removed. With a `?` or `#` before that `@` it might also be part of a query; then
/// nothing is shown.
fn redact_url(text: &str) -> String {
    let (scheme, rest) = match text.find("://") {
        Some(at) if is_scheme(&text[..at]) => text.split_at(at + 3),
        _ => ("", text),
    };
    let (shown, query) = match rest.find(['?', '#']) {
        Some(at) if rest[at..].contains('@') => return format!("{scheme}***"),
        Some(at) => (&rest[..=at], "***"),
        None => (rest, ""),
    };
    match shown.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}***@{host}{query}"),
        None => format!("{scheme}{shown}{query}"),
    }
}

fn is_scheme(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}
