//! The values of `Authorization` and `Cookie`, and tokens behind `Bearer` and `Basic` wherever they stand.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::behind::{opening, take};
use crate::peek::{Peek, Short};
use crate::run::{RunKind, is_key};
use crate::scan::{End, Found};
use crate::value::{is_about, is_keyword, is_placeholder, is_random};

/// Ways to authenticate, in lower case.
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
/// Characters of a way to authenticate.
const SCHEME_CHARS_MAX: usize = 24;
/// Characters of a token that are looked at.
const TOKEN_CHARS_MAX: usize = 256;
/// Characters of a cookie's name.
const COOKIE_CHARS_MAX: usize = 128;

/// `Authorization: Bearer …`, or the same as a member of JSON. The way to authenticate stays.
pub(super) fn authorization(peek: &Peek<'_>, at: usize) -> Result<Option<Found>, Short> {
    let (at, kind) = opening(peek, at)?.unwrap_or((at, RunKind::Line));
    let name =
        peek.count(at, SCHEME_CHARS_MAX, |byte| byte.is_ascii_alphanumeric() || byte == b'-')?;
    let scheme = peek.slice(at, name).to_ascii_lowercase();
    let has_scheme =
        SCHEMES.iter().any(|known| known.as_bytes() == scheme) && peek.at(at + name)? == Some(b' ');
    let start =
        if has_scheme { at + name + peek.count(at + name, 8, |byte| byte == b' ')? } else { at };
    let token = peek.count(start, TOKEN_CHARS_MAX, |byte| {
        !matches!(byte, 0..=b' ' | b'"' | b'\'' | b'\\' | b'`')
    })?;
    let value = peek.slice(start, token);
    if value.is_empty() || is_placeholder(value) || is_about(value) || is_keyword(value) {
        return Ok(None);
    }
    // In a sentence more words follow; then only what looks like a secret is one.
    let is_alone = peek.at(start + token)? != Some(b' ');
    let has_parts = has_scheme && value.contains(&b'=');
    let is_hidden = has_parts || is_token(value) || is_alone && (has_scheme || value.len() >= 8);
    let kind = match kind {
        RunKind::Line if has_parts => RunKind::Rest,
        kind if is_alone || has_parts => kind,
        _ => RunKind::Bare,
    };
    Ok(is_hidden.then_some(Found { start, end: End::Run(kind) }))
}

/// `Cookie: name=value; …`: all of it.
pub(super) fn cookie(peek: &Peek<'_>, at: usize) -> Result<Option<Found>, Short> {
    let (at, kind) = opening(peek, at)?.unwrap_or((at, RunKind::Line));
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let name = peek.count(at, COOKIE_CHARS_MAX, is_name)?;
    if name == 0 || peek.at(at + name)? != Some(b'=') {
        return Ok(None);
    }
    let value = take(peek, at + name + 1, RunKind::Bare)?;
    let is_hidden = !value.is_empty() && !is_placeholder(value) && !value.starts_with(b"=");
    Ok(is_hidden.then_some(Found { start: at, end: End::Run(kind) }))
}

/// `Bearer …` anywhere.
pub(super) fn bearer(peek: &Peek<'_>, word: usize) -> Result<Option<Found>, Short> {
    let Some(start) = after_blank(peek, word)? else { return Ok(None) };
    let count = peek.count(start, TOKEN_CHARS_MAX, is_key)?;
    let is_hidden = is_token(peek.slice(start, count));
    Ok(is_hidden.then_some(Found { start, end: End::Run(RunKind::Key) }))
}

/// `Basic …` anywhere: base64 of something with a colon.
pub(super) fn basic(peek: &Peek<'_>, word: usize) -> Result<Option<Found>, Short> {
    let Some(start) = after_blank(peek, word)? else { return Ok(None) };
    let count = peek.count(start, TOKEN_CHARS_MAX, is_key)?;
    let text = peek.slice(start, count);
    let text = &text[..text.len() - text.iter().rev().take_while(|byte| **byte == b'=').count()];
    let whole = &text[..text.len() / 4 * 4];
    let decoded = BASE64_STANDARD.decode(whole).unwrap_or_default();
    let is_hidden =
        text.len() >= 6 && decoded.contains(&b':') && decoded.iter().all(|byte| *byte >= b' ');
    Ok(is_hidden.then_some(Found { start, end: End::Run(RunKind::Key) }))
}

/// The place behind a blank, which a URL writes in other ways.
fn after_blank(peek: &Peek<'_>, at: usize) -> Result<Option<usize>, Short> {
    let blanks = peek.count(at, 8, |byte| byte == b' ')?;
    if blanks > 0 {
        return Ok(Some(at + blanks));
    }
    if peek.at(at)? == Some(b'+') {
        return Ok(Some(at + 1));
    }
    Ok(peek.has(at, b"%20")?.then_some(at + 3))
}

/// What no sentence has behind `Bearer`.
fn is_token(value: &[u8]) -> bool {
    if is_random(value) || value.len() >= 32 {
        return true;
    }
    let has = |is: fn(&u8) -> bool| value.iter().any(is);
    value.len() >= 4 && has(u8::is_ascii_digit)
        || value.len() >= 16 && has(|byte| b"+/=".contains(byte))
}
