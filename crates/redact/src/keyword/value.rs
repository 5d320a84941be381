//! The value after a keyword: its extent, and whether it is a secret.

use super::{Confidence, KeywordContext, Separator, quote};
use crate::lookahead::{Lookahead, NeedMoreInput};
use crate::scan::{Match, MatchEnd};
use crate::value::{
    is_code, is_non_value, is_path, is_placeholder, is_random, is_word, mentions_secret,
};
use crate::value_scanner::{ValueKind, ValueScanner};

/// Maximum number of examined bytes of a value. A longer value is classified by its beginning.
const VALUE_BYTES_MAX: usize = 256;

/// Returns the match of the value at `at`. `None` if it does not look like a secret.
pub(super) fn find(
    lookahead: &Lookahead<'_>,
    at: usize,
    confidence: Confidence,
    separator: Separator,
    context: KeywordContext,
) -> Result<Option<Match>, NeedMoreInput> {
    if let Some((start, kind)) = string_content(lookahead, at)? {
        let value = take(lookahead, start, kind)?;
        let found = confidence != Confidence::Query && is_secret_string(confidence, value);
        return Ok(found.then_some(Match { start, end: MatchEnd::Value(kind) }));
    }
    let kind = match separator {
        Separator::Tight if context.is_upper => ValueKind::Env,
        _ => ValueKind::Bare,
    };
    let value = take(lookahead, at, kind)?;
    let next = lookahead.at(at + value.len())?;
    if separator == Separator::Colon
        && let Some(found) = typed(lookahead, at, confidence)?
    {
        return Ok(Some(found));
    }
    // A call, an index or a path: the program computes the value.
    if value.is_empty() || matches!(next, Some(b'(' | b'[')) || is_placeholder(value) {
        return Ok(None);
    }
    let is_last = matches!(next, None | Some(b'\n' | b'\r'));
    let is_secret = match separator {
        Separator::Tight if context.is_query => !mentions_secret(value),
        _ if confidence == Confidence::Query => false,
        Separator::Tag => is_secret_string(confidence, value),
        Separator::Tight if context.is_upper => is_secret_in_env(confidence, value),
        Separator::Tight => is_secret_bare(confidence, value),
        Separator::Blank => !value.starts_with(b"-") && is_secret_spaced(confidence, value, false),
        Separator::Spaced | Separator::Colon => is_secret_spaced(confidence, value, is_last),
    };
    Ok(is_secret.then_some(Match { start: at, end: MatchEnd::Value(kind) }))
}

/// Returns true if a quoted value is a secret.
pub(crate) fn is_secret_string(confidence: Confidence, value: &[u8]) -> bool {
    if value.is_empty() || is_placeholder(value) || mentions_secret(value) || is_non_value(value) {
        return false;
    }
    let has_blank = value.iter().any(u8::is_ascii_whitespace);
    match confidence {
        Confidence::Password => true,
        Confidence::Strong => !has_blank && value.len() >= 4 && !is_path(value),
        Confidence::Weak => !has_blank && is_random(value),
        _ => false,
    }
}

/// Returns true if the value in `DB_PASSWORD=…` is a secret.
fn is_secret_in_env(confidence: Confidence, value: &[u8]) -> bool {
    if mentions_secret(value) || is_non_value(value) || is_path(value) {
        return false;
    }
    match confidence {
        Confidence::Password => true,
        Confidence::Strong => value.len() >= 4,
        _ => value.len() >= 6 && !value.iter().all(u8::is_ascii_digit) && !is_code(value),
    }
}

/// Returns true if the value in `password=…` is a secret.
fn is_secret_bare(confidence: Confidence, value: &[u8]) -> bool {
    if mentions_secret(value) || is_non_value(value) || is_code(value) {
        return false;
    }
    match confidence {
        Confidence::Password => value.len() >= 4,
        Confidence::Strong => value.len() >= 6 && !is_path(value),
        _ => is_random(value),
    }
}

/// Returns true if the value in `password: …`, `password = …` or `--password …` is a secret. `is_last` states that the
/// line ends after it.
fn is_secret_spaced(confidence: Confidence, value: &[u8], is_last: bool) -> bool {
    if mentions_secret(value) || is_non_value(value) || is_code(value) || is_path(value) {
        return false;
    }
    let is_lower = value.first().is_some_and(u8::is_ascii_lowercase);
    match confidence {
        // A word may be a type, a variable or part of a sentence. Alone at the end of a line, it is a value.
        Confidence::Password if is_word(value) => is_last && is_lower && value.len() >= 6,
        Confidence::Password => value.len() >= 6 && !is_small_type(value),
        Confidence::Strong => {
            let has_digit = value.iter().any(u8::is_ascii_digit);
            is_random(value) || value.len() >= 8 && has_digit && !is_small_type(value)
        }
        _ => is_random(value),
    }
}

/// Returns true for type names with a small number, such as `u64`, `utf8`, `argon2` and `bcrypt2b`.
fn is_small_type(value: &[u8]) -> bool {
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    value.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        && value.contains(&b'_')
        && digits <= 2
}

/// Matches `password: &str = "…"`: a value after a type.
fn typed(
    lookahead: &Lookahead<'_>,
    at: usize,
    confidence: Confidence,
) -> Result<Option<Match>, NeedMoreInput> {
    let is_type = |byte: u8| byte.is_ascii_alphanumeric() || b"_&'<>[]|: ".contains(&byte);
    let width = lookahead.count(at, 48, is_type)?;
    if width == 0 || lookahead.at(at + width)? != Some(b'=') {
        return Ok(None);
    }
    let blank = lookahead.count(at + width + 1, 4, |byte| byte == b' ')?;
    let Some((start, kind)) = string_content(lookahead, at + width + 1 + blank)? else {
        return Ok(None);
    };
    let found = is_secret_string(confidence, take(lookahead, start, kind)?);
    Ok(found.then_some(Match { start, end: MatchEnd::Value(kind) }))
}

/// Returns the content position of a string that starts here, with an optional prefix letter as in `b"…"`.
pub(super) fn string_content(
    lookahead: &Lookahead<'_>,
    at: usize,
) -> Result<Option<(usize, ValueKind)>, NeedMoreInput> {
    let has_letter = lookahead.at(at)?.is_some_and(|byte| b"bBrRfFuU".contains(&byte));
    quote(lookahead, at + usize::from(has_letter))
}

/// Returns the value of a kind at `at`, or its first [`VALUE_BYTES_MAX`] bytes.
pub(super) fn take<'a>(
    lookahead: &Lookahead<'a>,
    at: usize,
    kind: ValueKind,
) -> Result<&'a [u8], NeedMoreInput> {
    let mut scanner = ValueScanner::new(kind);
    let mut len = 0;
    while len < VALUE_BYTES_MAX {
        match lookahead.at(at + len)? {
            Some(byte) if scanner.advance(&[byte]).is_none() => len += 1,
            _ => break,
        }
    }
    let value = lookahead.slice(at, len);
    // The backslashes of the closing quote are not part of the value.
    let ValueKind::Quoted { slashes, .. } = kind else { return Ok(value) };
    let slashes = slashes as usize;
    let is_escaped =
        len < VALUE_BYTES_MAX && slashes > 0 && value.ends_with(&[b'\\'; 15][..slashes.min(15)]);
    Ok(if is_escaped { &value[..len - slashes] } else { value })
}
