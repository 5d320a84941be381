//! Values of the `Authorization` and `Cookie` headers, and tokens after `Bearer` and `Basic` anywhere in a text.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::value::{string_content, take};
use crate::lookahead::{Lookahead, NeedMoreInput};
use crate::scan::{Match, MatchEnd};
use crate::value::{is_non_value, is_placeholder, is_random, mentions_secret};
use crate::value_scanner::{ValueKind, is_key};

/// Authentication schemes in lower case.
const SCHEMES: [&str; 17] = [
    "bearer",
    "basic",
    "token",
    "apikey",
    "api-key",
    "digest",
    "negotiate",
    "ntlm",
    "hawk",
    "key",
    "signature",
    "hmac",
    "oauth",
    "bot",
    "aws4-hmac-sha256",
    "sharedkey",
    "sso-key",
];
/// Maximum length of a scheme, in characters.
const SCHEME_CHARS_MAX: usize = 24;
/// Number of characters of a token that are examined.
const TOKEN_CHARS_MAX: usize = 256;
/// Maximum length of a cookie name, in characters.
const COOKIE_CHARS_MAX: usize = 128;

/// Matches `Authorization: Bearer …`, also as a JSON member. The scheme is not redacted.
pub(super) fn authorization(
    lookahead: &Lookahead<'_>,
    at: usize,
) -> Result<Option<Match>, NeedMoreInput> {
    let (at, kind) = string_content(lookahead, at)?.unwrap_or((at, ValueKind::Line));
    let name = lookahead
        .count(at, SCHEME_CHARS_MAX, |byte| byte.is_ascii_alphanumeric() || byte == b'-')?;
    let scheme = lookahead.slice(at, name).to_ascii_lowercase();
    let has_scheme = SCHEMES.iter().any(|known| known.as_bytes() == scheme)
        && lookahead.at(at + name)? == Some(b' ');
    let start = if has_scheme {
        at + name + lookahead.count(at + name, 8, |byte| byte == b' ')?
    } else {
        at
    };
    let token = lookahead.count(start, TOKEN_CHARS_MAX, |byte| {
        !matches!(byte, 0..=b' ' | b'"' | b'\'' | b'\\' | b'`')
    })?;
    let value = lookahead.slice(start, token);
    if value.is_empty() || is_placeholder(value) || mentions_secret(value) || is_non_value(value) {
        return Ok(None);
    }
    // More words follow in a sentence. In that case, only a value that looks like a secret matches.
    let is_alone = lookahead.at(start + token)? != Some(b' ');
    let has_parts = has_scheme && value.contains(&b'=');
    let is_secret = has_parts || is_token(value) || is_alone && (has_scheme || value.len() >= 8);
    let kind = match kind {
        ValueKind::Line if has_parts => ValueKind::Rest,
        kind if is_alone || has_parts => kind,
        _ => ValueKind::Bare,
    };
    Ok(is_secret.then_some(Match { start, end: MatchEnd::Value(kind) }))
}

/// Matches `Cookie: name=value; …` as a whole.
pub(super) fn cookie(lookahead: &Lookahead<'_>, at: usize) -> Result<Option<Match>, NeedMoreInput> {
    let (at, kind) = string_content(lookahead, at)?.unwrap_or((at, ValueKind::Line));
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let name = lookahead.count(at, COOKIE_CHARS_MAX, is_name)?;
    if name == 0 || lookahead.at(at + name)? != Some(b'=') {
        return Ok(None);
    }
    let value = take(lookahead, at + name + 1, ValueKind::Bare)?;
    let is_secret = !value.is_empty() && !is_placeholder(value) && !value.starts_with(b"=");
    Ok(is_secret.then_some(Match { start: at, end: MatchEnd::Value(kind) }))
}

/// Matches `Bearer …` anywhere.
pub(super) fn bearer(
    lookahead: &Lookahead<'_>,
    word: usize,
) -> Result<Option<Match>, NeedMoreInput> {
    let Some(start) = after_blank(lookahead, word)? else { return Ok(None) };
    let count = lookahead.count(start, TOKEN_CHARS_MAX, is_key)?;
    let is_secret = is_token(lookahead.slice(start, count));
    Ok(is_secret.then_some(Match { start, end: MatchEnd::Value(ValueKind::Key) }))
}

/// Matches `Basic …` anywhere: base64 of a text with a colon.
pub(super) fn basic(
    lookahead: &Lookahead<'_>,
    word: usize,
) -> Result<Option<Match>, NeedMoreInput> {
    let Some(start) = after_blank(lookahead, word)? else { return Ok(None) };
    let count = lookahead.count(start, TOKEN_CHARS_MAX, is_key)?;
    let text = lookahead.slice(start, count);
    let text = &text[..text.len() - text.iter().rev().take_while(|byte| **byte == b'=').count()];
    let whole = &text[..text.len() / 4 * 4];
    let decoded = BASE64_STANDARD.decode(whole).unwrap_or_default();
    let is_secret =
        text.len() >= 6 && decoded.contains(&b':') && decoded.iter().all(|byte| *byte >= b' ');
    Ok(is_secret.then_some(Match { start, end: MatchEnd::Value(ValueKind::Key) }))
}

/// Returns the position after a blank, which a URL encodes differently.
fn after_blank(lookahead: &Lookahead<'_>, at: usize) -> Result<Option<usize>, NeedMoreInput> {
    let blanks = lookahead.count(at, 8, |byte| byte == b' ')?;
    if blanks > 0 {
        return Ok(Some(at + blanks));
    }
    if lookahead.at(at)? == Some(b'+') {
        return Ok(Some(at + 1));
    }
    Ok(lookahead.has(at, b"%20")?.then_some(at + 3))
}

/// Returns true for a value that does not follow `Bearer` in ordinary text.
fn is_token(value: &[u8]) -> bool {
    if is_random(value) || value.len() >= 32 {
        return true;
    }
    let has = |is: fn(&u8) -> bool| value.iter().any(is);
    value.len() >= 4 && has(u8::is_ascii_digit)
        || value.len() >= 16 && has(|byte| b"+/=".contains(byte))
}
