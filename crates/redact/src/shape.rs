//! What keys of well-known services look like.

use crate::peek::{Peek, Short};
use crate::run::{RunKind, is_key};
use crate::scan::{End, Found};
use crate::value::{is_about, is_placeholder, is_random};

/// Characters of a key that are counted; a longer one goes on as a run.
const KEY_CHARS_MAX: usize = 512;
/// Characters of `user:password` in a URL.
const USERINFO_CHARS_MAX: usize = 512;
/// Characters of the first two parts of a JSON web token.
const JWT_CHARS_MAX: usize = 1900;
/// Characters of a line that opens a private key.
const PEM_HEAD_CHARS_MAX: usize = 64;

/// What a key begins with, and what follows.
pub(crate) struct Shape {
    pub(crate) prefix: &'static str,
    rule: Rule,
}

#[derive(Clone, Copy)]
enum Rule {
    /// So many characters at least, so many at most.
    Tail {
        of: Sort,
        min: usize,
        max: usize,
    },
    /// The same, and the prefix stays.
    Behind {
        of: Sort,
        min: usize,
    },
    /// Parts, one of which is letters mixed with digits.
    Parts,
    Jwt,
    Pem,
    Url,
    Telegram,
}

#[derive(Clone, Copy)]
enum Sort {
    Hex,
    Upper,
    Alnum,
    /// Letters, digits, `_` and `-`.
    Word,
    /// Those and dots, slashes, plus and equals signs.
    Key,
}

impl Sort {
    fn has(self, byte: u8) -> bool {
        match self {
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Word => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Self::Key => is_key(byte),
        }
    }
}

const fn tail(prefix: &'static str, of: Sort, min: usize) -> Shape {
    Shape { prefix, rule: Rule::Tail { of, min, max: KEY_CHARS_MAX } }
}

const fn exact(prefix: &'static str, of: Sort, len: usize) -> Shape {
    Shape { prefix, rule: Rule::Tail { of, min: len, max: len } }
}

const fn rule(prefix: &'static str, rule: Rule) -> Shape {
    Shape { prefix, rule }
}

/// The shapes. A prefix has three bytes at least.
pub(crate) const SHAPES: &[Shape] = &[
    rule("sk-", Rule::Parts),
    rule("eyJ", Rule::Jwt),
    rule("-----BEGIN ", Rule::Pem),
    rule("://", Rule::Url),
    rule(":\\/\\/", Rule::Url),
    rule(":AA", Rule::Telegram),
    // Our own: an id and a secret.
    exact("prv_", Sort::Word, 70),
    tail("sk_live_", Sort::Alnum, 10),
    tail("sk_test_", Sort::Alnum, 10),
    tail("rk_live_", Sort::Alnum, 10),
    tail("rk_test_", Sort::Alnum, 10),
    tail("whsec_", Sort::Key, 16),
    exact("AIza", Sort::Word, 35),
    tail("ya29.", Sort::Key, 20),
    tail("GOCSPX-", Sort::Word, 20),
    exact("AKIA", Sort::Upper, 16),
    exact("ASIA", Sort::Upper, 16),
    tail("ghp_", Sort::Alnum, 30),
    tail("gho_", Sort::Alnum, 30),
    tail("ghu_", Sort::Alnum, 30),
    tail("ghs_", Sort::Key, 30),
    tail("ghr_", Sort::Alnum, 30),
    tail("github_pat_", Sort::Word, 22),
    tail("glpat-", Sort::Key, 20),
    tail("gldt-", Sort::Key, 20),
    tail("glrt-", Sort::Key, 20),
    tail("glptt-", Sort::Key, 20),
    tail("glcbt-", Sort::Key, 20),
    tail("glsa_", Sort::Word, 32),
    tail("xoxb-", Sort::Word, 10),
    tail("xoxp-", Sort::Word, 10),
    tail("xoxa-", Sort::Word, 10),
    tail("xoxr-", Sort::Word, 10),
    tail("xoxs-", Sort::Word, 10),
    tail("xoxe", Sort::Key, 20),
    tail("xoxc-", Sort::Word, 10),
    tail("xoxd-", Sort::Key, 10),
    tail("xapp-", Sort::Word, 10),
    rule("hooks.slack.com/services/", Rule::Behind { of: Sort::Key, min: 20 }),
    rule("discord.com/api/webhooks/", Rule::Behind { of: Sort::Key, min: 30 }),
    exact("npm_", Sort::Alnum, 36),
    tail("pypi-AgE", Sort::Word, 32),
    tail("hf_", Sort::Alnum, 30),
    tail("gsk_", Sort::Alnum, 40),
    tail("xai-", Sort::Alnum, 40),
    tail("pplx-", Sort::Alnum, 40),
    tail("r8_", Sort::Alnum, 37),
    tail("tvly-", Sort::Word, 20),
    tail("SG.", Sort::Key, 50),
    tail("dop_v1_", Sort::Hex, 60),
    tail("shpat_", Sort::Hex, 32),
    tail("shpss_", Sort::Hex, 32),
    tail("shpca_", Sort::Hex, 32),
    tail("lin_api_", Sort::Alnum, 32),
    tail("ntn_", Sort::Alnum, 40),
    tail("ATATT3", Sort::Key, 40),
    tail("dapi", Sort::Hex, 32),
    tail("dckr_pat_", Sort::Word, 20),
    tail("hvs.", Sort::Word, 24),
    tail("sntrys_", Sort::Key, 40),
    tail("sbp_", Sort::Hex, 40),
    tail("figd_", Sort::Word, 30),
    tail("rubygems_", Sort::Hex, 40),
    tail("AGE-SECRET-KEY-1", Sort::Alnum, 50),
];

impl Shape {
    /// Whether a key of this shape starts here.
    pub(crate) fn find(&self, peek: &Peek<'_>) -> Result<Option<Found>, Short> {
        let len = self.prefix.len();
        if !peek.has(0, self.prefix.as_bytes())? {
            return Ok(None);
        }
        match self.rule {
            Rule::Url => return url(peek, len),
            Rule::Telegram => return telegram(peek),
            Rule::Pem => return pem(peek, len),
            _ => {}
        }
        if !starts_word(peek) {
            return Ok(None);
        }
        match self.rule {
            Rule::Tail { of, min, max } => {
                let count = peek.count(len, max + 1, |byte| of.has(byte))?;
                let fits = (min..=max).contains(&count) || count > max && max == KEY_CHARS_MAX;
                Ok(fits.then(|| key(0, len + count)))
            }
            Rule::Behind { of, min } => {
                let count = peek.count(len, KEY_CHARS_MAX, |byte| of.has(byte))?;
                Ok((count >= min).then(|| key(len, count)))
            }
            Rule::Parts => parts(peek, len),
            Rule::Jwt => jwt(peek),
            Rule::Pem | Rule::Url | Rule::Telegram => Ok(None),
        }
    }
}

/// A key from a place on, of so many characters or more.
fn key(start: usize, len: usize) -> Found {
    match len < KEY_CHARS_MAX {
        true => Found { start, end: End::After(start + len) },
        false => Found { start, end: End::Run(RunKind::Key) },
    }
}

/// True if no word goes on here. Escapes such as `\n` and `%3D` end with letters which belong to no word.
pub(crate) fn starts_word(peek: &Peek<'_>) -> bool {
    let Some(before) = peek.back(1) else { return true };
    if !before.is_ascii_alphanumeric() {
        return true;
    }
    let is_escape = peek.back(2) == Some(b'\\') && b"nrtbf".contains(&before);
    let is_hex = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_hexdigit());
    is_escape || (peek.back(3) == Some(b'%') && is_hex(peek.back(2)) && is_hex(Some(before)))
}

/// `sk-…`: ten characters or more, with a part of eight or more in which letters and digits meet.
fn parts(peek: &Peek<'_>, prefix: usize) -> Result<Option<Found>, Short> {
    let count = peek.count(prefix, KEY_CHARS_MAX, |byte| Sort::Word.has(byte))?;
    let body = peek.slice(prefix, count);
    let is_secret = |part: &[u8]| {
        let has = |is: fn(&u8) -> bool| part.iter().any(is);
        part.len() >= 8 && has(u8::is_ascii_alphabetic) && has(u8::is_ascii_digit)
    };
    let found = count >= 10 && body.split(|byte| matches!(byte, b'-' | b'_')).any(is_secret);
    Ok(found.then(|| key(0, prefix + count)))
}

/// Two parts that begin like JSON objects, and a third one.
fn jwt(peek: &Peek<'_>) -> Result<Option<Found>, Short> {
    let is_url64 = |byte: u8| Sort::Word.has(byte);
    let head = peek.count(0, JWT_CHARS_MAX, is_url64)?;
    if head < 10 || peek.at(head)? != Some(b'.') {
        return Ok(None);
    }
    let body = peek.count(head + 1, 10, is_url64)?;
    // An encrypted one has five parts, of which the second may be empty.
    let is_empty = body == 0 && peek.at(head + 1)? == Some(b'.');
    Ok((body == 10 || is_empty).then_some(Found { start: 0, end: End::Run(RunKind::Key) }))
}

/// The body of a private key; its first and last line stay.
fn pem(peek: &Peek<'_>, prefix: usize) -> Result<Option<Found>, Short> {
    let is_head = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' ';
    let count = peek.count(prefix, PEM_HEAD_CHARS_MAX, is_head)?;
    let title = peek.slice(prefix, count);
    if !(title.ends_with(b"PRIVATE KEY") || title.ends_with(b"PRIVATE KEY BLOCK")) {
        return Ok(None);
    }
    let start = prefix + count + 5;
    if !peek.has(prefix + count, b"-----")? || peek.at(start)?.is_none() {
        return Ok(None);
    }
    // What was redacted before stays as it is.
    let blank = peek.count(start, PEM_HEAD_CHARS_MAX, |byte| {
        matches!(byte, b'\r' | b'\n' | b' ' | b'\\' | b'n' | b'r')
    })?;
    if peek.has(start + blank, crate::MARK.as_bytes())? {
        return Ok(None);
    }
    Ok(Some(Found { start, end: End::Run(RunKind::Pem) }))
}

/// The password of `scheme://user:password@host`, and a name before `@` that no person has.
fn url(peek: &Peek<'_>, prefix: usize) -> Result<Option<Found>, Short> {
    let is_user = |byte: u8| {
        !matches!(
            byte,
            0..=b' ' | b'"' | b'\'' | b'`' | b'/' | b'\\' | b'?' | b'#' | b'<' | b'>' | 0x7f
        )
    };
    let count = peek.count(prefix, USERINFO_CHARS_MAX, is_user)?;
    let found = peek.slice(prefix, count);
    let Some(at) = found.iter().rposition(|byte| *byte == b'@') else { return Ok(None) };
    let user = &found[..at];
    let start = match user.iter().position(|byte| *byte == b':') {
        Some(colon) => colon + 1,
        None if user.len() >= 20 && is_random(user) => 0,
        None => return Ok(None),
    };
    let password = &user[start..];
    let is_named = [&b"pass"[..], b"pwd", b"pw"].contains(&password);
    if password.len() < 3 || is_placeholder(password) || is_about(password) || is_named {
        return Ok(None);
    }
    Ok(Some(Found { start: prefix + start, end: End::After(prefix + at) }))
}

/// `123456789:AA…`: the number of the bot stays.
fn telegram(peek: &Peek<'_>) -> Result<Option<Found>, Short> {
    let digits = (1..=12)
        .take_while(|back| peek.back(*back).is_some_and(|byte| byte.is_ascii_digit()))
        .count();
    if !(6..=11).contains(&digits) {
        return Ok(None);
    }
    let count = peek.count(1, 36, |byte| Sort::Word.has(byte))?;
    Ok((count == 35).then_some(Found { start: 1, end: End::After(36) }))
}
