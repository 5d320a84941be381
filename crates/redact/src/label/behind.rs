//! What stands behind a label: how far it reaches, and whether it is a secret.

use super::{Sign, Site, Strength, quote};
use crate::peek::{Peek, Short};
use crate::run::{Run, RunKind};
use crate::scan::{End, Found};
use crate::value::{is_about, is_code, is_keyword, is_place, is_placeholder, is_random, is_word};

/// Bytes of a value that are judged. What is longer is judged by its beginning.
const VALUE_BYTES_MAX: usize = 256;

/// Whether a secret stands at `at`, behind a label of some strength.
pub(super) fn find(
    peek: &Peek<'_>,
    at: usize,
    strength: Strength,
    sign: Sign,
    site: Site,
) -> Result<Option<Found>, Short> {
    if let Some((start, kind)) = opening(peek, at)? {
        let value = take(peek, start, kind)?;
        let found = strength != Strength::Query && is_hidden_string(strength, value);
        return Ok(found.then_some(Found { start, end: End::Run(kind) }));
    }
    let kind = match sign {
        Sign::Tight if site.is_upper => RunKind::Env,
        _ => RunKind::Bare,
    };
    let value = take(peek, at, kind)?;
    let next = peek.at(at + value.len())?;
    if sign == Sign::Colon
        && let Some(found) = typed(peek, at, strength)?
    {
        return Ok(Some(found));
    }
    // A call, an index or a path: a program makes the value.
    if value.is_empty() || matches!(next, Some(b'(' | b'[')) || is_placeholder(value) {
        return Ok(None);
    }
    let is_last = matches!(next, None | Some(b'\n' | b'\r'));
    let is_hidden = match sign {
        Sign::Tight if site.is_query => !is_about(value),
        _ if strength == Strength::Query => false,
        Sign::Tag => is_hidden_string(strength, value),
        Sign::Tight if site.is_upper => is_hidden_in_env(strength, value),
        Sign::Tight => is_hidden_bare(strength, value),
        Sign::Blank => !value.starts_with(b"-") && is_hidden_far(strength, value, false),
        Sign::Spaced | Sign::Colon => is_hidden_far(strength, value, is_last),
    };
    Ok(is_hidden.then_some(Found { start: at, end: End::Run(kind) }))
}

/// Whether a string behind a label is a secret.
pub(crate) fn is_hidden_string(strength: Strength, value: &[u8]) -> bool {
    if value.is_empty() || is_placeholder(value) || is_about(value) || is_keyword(value) {
        return false;
    }
    let has_blank = value.iter().any(u8::is_ascii_whitespace);
    match strength {
        Strength::Pass => true,
        Strength::Strong => !has_blank && value.len() >= 4 && !is_place(value),
        Strength::Weak => !has_blank && is_random(value),
        _ => false,
    }
}

/// `DB_PASSWORD=…`
fn is_hidden_in_env(strength: Strength, value: &[u8]) -> bool {
    if is_about(value) || is_keyword(value) || is_place(value) {
        return false;
    }
    match strength {
        Strength::Pass => true,
        Strength::Strong => value.len() >= 4,
        _ => value.len() >= 6 && !value.iter().all(u8::is_ascii_digit) && !is_code(value),
    }
}

/// `password=…`
fn is_hidden_bare(strength: Strength, value: &[u8]) -> bool {
    if is_about(value) || is_keyword(value) || is_code(value) {
        return false;
    }
    match strength {
        Strength::Pass => value.len() >= 4,
        Strength::Strong => value.len() >= 6 && !is_place(value),
        _ => is_random(value),
    }
}

/// `password: …`, `password = …`, `--password …`
fn is_hidden_far(strength: Strength, value: &[u8], is_last: bool) -> bool {
    if is_about(value) || is_keyword(value) || is_code(value) || is_place(value) {
        return false;
    }
    let is_lower = value.first().is_some_and(u8::is_ascii_lowercase);
    match strength {
        // A word may be a type, a variable or a part of a sentence; alone at the end of a line it is a value.
        Strength::Pass if is_word(value) => is_last && is_lower && value.len() >= 6,
        Strength::Pass => value.len() >= 6 && !is_small_type(value),
        Strength::Strong => {
            let has_digit = value.iter().any(u8::is_ascii_digit);
            is_random(value) || value.len() >= 8 && has_digit && !is_small_type(value)
        }
        _ => is_random(value),
    }
}

/// `u64`, `utf8`, `argon2`, `bcrypt2b`: letters and a small number.
fn is_small_type(value: &[u8]) -> bool {
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    value.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        && value.contains(&b'_')
        && digits <= 2
}

/// `password: &str = "…"`: the value behind a type.
fn typed(peek: &Peek<'_>, at: usize, strength: Strength) -> Result<Option<Found>, Short> {
    let is_type = |byte: u8| byte.is_ascii_alphanumeric() || b"_&'<>[]|: ".contains(&byte);
    let width = peek.count(at, 48, is_type)?;
    if width == 0 || peek.at(at + width)? != Some(b'=') {
        return Ok(None);
    }
    let blank = peek.count(at + width + 1, 4, |byte| byte == b' ')?;
    let Some((start, kind)) = opening(peek, at + width + 1 + blank)? else { return Ok(None) };
    let found = is_hidden_string(strength, take(peek, start, kind)?);
    Ok(found.then_some(Found { start, end: End::Run(kind) }))
}

/// The inside of a string that starts here, perhaps behind a letter as in `b"…"`.
pub(super) fn opening(peek: &Peek<'_>, at: usize) -> Result<Option<(usize, RunKind)>, Short> {
    let has_letter = peek.at(at)?.is_some_and(|byte| b"bBrRfFuU".contains(&byte));
    quote(peek, at + usize::from(has_letter))
}

/// The beginning of a value that ends like this.
pub(super) fn take<'a>(peek: &Peek<'a>, at: usize, kind: RunKind) -> Result<&'a [u8], Short> {
    let mut run = Run::new(kind);
    let mut len = 0;
    while len < VALUE_BYTES_MAX {
        match peek.at(at + len)? {
            Some(byte) if run.advance(&[byte]).is_none() => len += 1,
            _ => break,
        }
    }
    let value = peek.slice(at, len);
    // The backslashes of the quote that ends it belong to the quote.
    let RunKind::Quoted { slashes, .. } = kind else { return Ok(value) };
    let slashes = slashes as usize;
    let is_escaped =
        len < VALUE_BYTES_MAX && slashes > 0 && value.ends_with(&[b'\\'; 15][..slashes.min(15)]);
    Ok(if is_escaped { &value[..len - slashes] } else { value })
}
