//! Base URLs: validation, and redaction for error messages.

use reqwest::Url;

use super::ModelBuildError;

/// Parses and validates a base URL. Returns an error if it is not HTTP or HTTPS, or has a user name, password, query or
/// fragment. The error contains none of these.
pub(super) fn parse_base_url(text: &str) -> Result<Url, ModelBuildError> {
    let text = text.trim();
    let invalid = |reason: &str| {
        Err(ModelBuildError::BaseUrl { url: redact_url(text), reason: reason.to_owned() })
    };
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(cause) => return invalid(&cause.to_string()),
    };
    if !url.username().is_empty() || url.password().is_some() {
        return invalid("it contains a user name or password; pass the key to the builder");
    }
    if !matches!(url.scheme(), "http" | "https") {
        return invalid("it must begin with http:// or https://");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return invalid("it must have no query and no fragment");
    }
    Ok(url)
}

/// Replaces the user name, the password and the query of a URL by `***`.
///
/// It works on the text, because a URL that cannot be parsed may contain a password too. A password may contain any
/// character, so everything up to the last `@` is removed. If a `?` or `#` comes before that `@`, the text after it may
/// belong to a query, and then everything after the scheme is removed.
fn redact_url(text: &str) -> String {
    let (scheme, rest) = match text.find("://") {
        Some(at) if is_scheme(&text[..at]) => text.split_at(at + 3),
        _ => ("", text),
    };
    let (visible, query) = match rest.find(['?', '#']) {
        Some(at) if rest[at..].contains('@') => return format!("{scheme}***"),
        Some(at) => (&rest[..=at], "***"),
        None => (rest, ""),
    };
    match visible.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}***@{host}{query}"),
        None => format!("{scheme}{visible}{query}"),
    }
}

/// Returns true if the text has only characters of a URL scheme.
fn is_scheme(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}
