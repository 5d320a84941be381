//! Token formats of well-known services.

use crate::lookahead::{Lookahead, NeedMoreInput};
use crate::scan::{Match, MatchEnd};
use crate::value::{is_placeholder, is_random, mentions_secret};
use crate::value_scanner::{ValueKind, is_key};

/// Number of counted characters of a key. A longer key is scanned to its end.
const KEY_CHARS_MAX: usize = 512;
/// Maximum length of `user:password` in a URL, in characters.
const USERINFO_CHARS_MAX: usize = 512;
/// Maximum length of the first two parts of a JSON web token, in characters.
const JWT_CHARS_MAX: usize = 1900;
/// Maximum length of the first line of a private key, in characters.
const PEM_HEAD_CHARS_MAX: usize = 64;

/// Prefix of a token and the format of the remainder.
pub(crate) struct TokenFormat {
    pub(crate) prefix: &'static str,
    rule: FormatRule,
}

/// Format of a token after its prefix.
#[derive(Clone, Copy)]
enum FormatRule {
    /// Between `min` and `max` characters.
    Length {
        class: CharClass,
        min: usize,
        max: usize,
    },
    /// At least `min` characters. The prefix is not redacted.
    AfterPrefix {
        class: CharClass,
        min: usize,
    },
    /// Parts, one of which mixes letters and digits.
    Parts,
    Jwt,
    Pem,
    Url,
    Telegram,
}

/// Set of the characters that a token may contain.
#[derive(Clone, Copy)]
enum CharClass {
    Hex,
    Upper,
    Alnum,
    /// Letters, digits, `_` and `-`.
    Word,
    /// The above, and dots, slashes, plus and equals signs.
    Key,
}

impl CharClass {
    /// Returns true if the class contains the byte.
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

/// Creates a format with at least `min` characters after the prefix.
const fn at_least(prefix: &'static str, class: CharClass, min: usize) -> TokenFormat {
    TokenFormat { prefix, rule: FormatRule::Length { class, min, max: KEY_CHARS_MAX } }
}

/// Creates a format with exactly `len` characters after the prefix.
const fn exact(prefix: &'static str, class: CharClass, len: usize) -> TokenFormat {
    TokenFormat { prefix, rule: FormatRule::Length { class, min: len, max: len } }
}

/// Creates a format with another rule.
const fn rule(prefix: &'static str, rule: FormatRule) -> TokenFormat {
    TokenFormat { prefix, rule }
}

/// The formats. A prefix has at least three bytes.
pub(crate) const TOKEN_FORMATS: &[TokenFormat] = &[
    rule("sk-", FormatRule::Parts),
    rule("eyJ", FormatRule::Jwt),
    rule("-----BEGIN ", FormatRule::Pem),
    rule("://", FormatRule::Url),
    rule(":\\/\\/", FormatRule::Url),
    rule(":AA", FormatRule::Telegram),
    // Tokens of Provost: an id and a secret.
    exact("prv_", CharClass::Word, 70),
    at_least("sk_live_", CharClass::Alnum, 10),
    at_least("sk_test_", CharClass::Alnum, 10),
    at_least("rk_live_", CharClass::Alnum, 10),
    at_least("rk_test_", CharClass::Alnum, 10),
    at_least("whsec_", CharClass::Key, 16),
    exact("AIza", CharClass::Word, 35),
    at_least("ya29.", CharClass::Key, 20),
    at_least("GOCSPX-", CharClass::Word, 20),
    exact("AKIA", CharClass::Upper, 16),
    exact("ASIA", CharClass::Upper, 16),
    at_least("ghp_", CharClass::Alnum, 30),
    at_least("gho_", CharClass::Alnum, 30),
    at_least("ghu_", CharClass::Alnum, 30),
    at_least("ghs_", CharClass::Key, 30),
    at_least("ghr_", CharClass::Alnum, 30),
    at_least("github_pat_", CharClass::Word, 22),
    at_least("glpat-", CharClass::Key, 20),
    at_least("gldt-", CharClass::Key, 20),
    at_least("glrt-", CharClass::Key, 20),
    at_least("glptt-", CharClass::Key, 20),
    at_least("glcbt-", CharClass::Key, 20),
    at_least("glsa_", CharClass::Word, 32),
    at_least("xoxb-", CharClass::Word, 10),
    at_least("xoxp-", CharClass::Word, 10),
    at_least("xoxa-", CharClass::Word, 10),
    at_least("xoxr-", CharClass::Word, 10),
    at_least("xoxs-", CharClass::Word, 10),
    at_least("xoxe", CharClass::Key, 20),
    at_least("xoxc-", CharClass::Word, 10),
    at_least("xoxd-", CharClass::Key, 10),
    at_least("xapp-", CharClass::Word, 10),
    rule("hooks.slack.com/services/", FormatRule::AfterPrefix { class: CharClass::Key, min: 20 }),
    rule("discord.com/api/webhooks/", FormatRule::AfterPrefix { class: CharClass::Key, min: 30 }),
    exact("npm_", CharClass::Alnum, 36),
    at_least("pypi-AgE", CharClass::Word, 32),
    at_least("hf_", CharClass::Alnum, 30),
    at_least("gsk_", CharClass::Alnum, 40),
    at_least("xai-", CharClass::Alnum, 40),
    at_least("pplx-", CharClass::Alnum, 40),
    at_least("r8_", CharClass::Alnum, 37),
    at_least("tvly-", CharClass::Word, 20),
    at_least("SG.", CharClass::Key, 50),
    at_least("dop_v1_", CharClass::Hex, 60),
    at_least("shpat_", CharClass::Hex, 32),
    at_least("shpss_", CharClass::Hex, 32),
    at_least("shpca_", CharClass::Hex, 32),
    at_least("lin_api_", CharClass::Alnum, 32),
    at_least("ntn_", CharClass::Alnum, 40),
    at_least("ATATT3", CharClass::Key, 40),
    at_least("dapi", CharClass::Hex, 32),
    at_least("dckr_pat_", CharClass::Word, 20),
    at_least("hvs.", CharClass::Word, 24),
    at_least("sntrys_", CharClass::Key, 40),
    at_least("sbp_", CharClass::Hex, 40),
    at_least("figd_", CharClass::Word, 30),
    at_least("rubygems_", CharClass::Hex, 40),
    at_least("AGE-SECRET-KEY-1", CharClass::Alnum, 50),
];

impl TokenFormat {
    /// Returns the token of this format at the current position, if there is one.
    pub(crate) fn find(&self, lookahead: &Lookahead<'_>) -> Result<Option<Match>, NeedMoreInput> {
        let len = self.prefix.len();
        if !lookahead.has(0, self.prefix.as_bytes())? {
            return Ok(None);
        }
        match self.rule {
            FormatRule::Url => return url(lookahead, len),
            FormatRule::Telegram => return telegram(lookahead),
            FormatRule::Pem => return pem(lookahead, len),
            _ => {}
        }
        if !starts_word(lookahead) {
            return Ok(None);
        }
        match self.rule {
            FormatRule::Length { class, min, max } => {
                let count = lookahead.count(len, max + 1, |byte| class.has(byte))?;
                let fits = (min..=max).contains(&count) || count > max && max == KEY_CHARS_MAX;
                Ok(fits.then(|| key(0, len + count)))
            }
            FormatRule::AfterPrefix { class, min } => {
                let count = lookahead.count(len, KEY_CHARS_MAX, |byte| class.has(byte))?;
                Ok((count >= min).then(|| key(len, count)))
            }
            FormatRule::Parts => parts(lookahead, len),
            FormatRule::Jwt => jwt(lookahead),
            FormatRule::Pem | FormatRule::Url | FormatRule::Telegram => Ok(None),
        }
    }
}

/// Returns the match of a token of `len` characters. A long token extends to its end.
fn key(start: usize, len: usize) -> Match {
    match len < KEY_CHARS_MAX {
        true => Match { start, end: MatchEnd::Offset(start + len) },
        false => Match { start, end: MatchEnd::Value(ValueKind::Key) },
    }
}

/// Returns true if no word continues at this position. The letters of escapes such as `\n` and `%3D` belong to no word.
pub(crate) fn starts_word(lookahead: &Lookahead<'_>) -> bool {
    let Some(before) = lookahead.back(1) else { return true };
    if !before.is_ascii_alphanumeric() {
        return true;
    }
    let is_escape = lookahead.back(2) == Some(b'\\') && b"nrtbf".contains(&before);
    let is_hex = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_hexdigit());
    is_escape
        || (lookahead.back(3) == Some(b'%') && is_hex(lookahead.back(2)) && is_hex(Some(before)))
}

/// Matches `sk-…`: at least ten characters, with a part of at least eight that mixes letters and digits.
fn parts(lookahead: &Lookahead<'_>, prefix: usize) -> Result<Option<Match>, NeedMoreInput> {
    let count = lookahead.count(prefix, KEY_CHARS_MAX, |byte| CharClass::Word.has(byte))?;
    let body = lookahead.slice(prefix, count);
    let is_secret = |part: &[u8]| {
        let has = |is: fn(&u8) -> bool| part.iter().any(is);
        part.len() >= 8 && has(u8::is_ascii_alphabetic) && has(u8::is_ascii_digit)
    };
    let found = count >= 10 && body.split(|byte| matches!(byte, b'-' | b'_')).any(is_secret);
    Ok(found.then(|| key(0, prefix + count)))
}

/// Matches two parts that begin like JSON objects, and a third one.
fn jwt(lookahead: &Lookahead<'_>) -> Result<Option<Match>, NeedMoreInput> {
    let is_url64 = |byte: u8| CharClass::Word.has(byte);
    let head = lookahead.count(0, JWT_CHARS_MAX, is_url64)?;
    if head < 10 || lookahead.at(head)? != Some(b'.') {
        return Ok(None);
    }
    let body = lookahead.count(head + 1, 10, is_url64)?;
    // An encrypted token has five parts, and the second may be empty.
    let is_empty = body == 0 && lookahead.at(head + 1)? == Some(b'.');
    Ok((body == 10 || is_empty).then_some(Match { start: 0, end: MatchEnd::Value(ValueKind::Key) }))
}

/// Matches the body of a private key. Its first and last lines are not redacted.
fn pem(lookahead: &Lookahead<'_>, prefix: usize) -> Result<Option<Match>, NeedMoreInput> {
    let is_head = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' ';
    let count = lookahead.count(prefix, PEM_HEAD_CHARS_MAX, is_head)?;
    let title = lookahead.slice(prefix, count);
    if !(title.ends_with(b"PRIVATE KEY") || title.ends_with(b"PRIVATE KEY BLOCK")) {
        return Ok(None);
    }
    let start = prefix + count + 5;
    if !lookahead.has(prefix + count, b"-----")? || lookahead.at(start)?.is_none() {
        return Ok(None);
    }
    // Text that is already redacted stays unchanged.
    let blank = lookahead.count(start, PEM_HEAD_CHARS_MAX, |byte| {
        matches!(byte, b'\r' | b'\n' | b' ' | b'\\' | b'n' | b'r')
    })?;
    if lookahead.has(start + blank, crate::PLACEHOLDER.as_bytes())? {
        return Ok(None);
    }
    Ok(Some(Match { start, end: MatchEnd::Value(ValueKind::Pem) }))
}

/// Matches the password of `scheme://user:password@host`, and a random user name.
fn url(lookahead: &Lookahead<'_>, prefix: usize) -> Result<Option<Match>, NeedMoreInput> {
    let is_user = |byte: u8| {
        !matches!(
            byte,
            0..=b' ' | b'"' | b'\'' | b'`' | b'/' | b'\\' | b'?' | b'#' | b'<' | b'>' | 0x7f
        )
    };
    let count = lookahead.count(prefix, USERINFO_CHARS_MAX, is_user)?;
    let found = lookahead.slice(prefix, count);
    let Some(at) = found.iter().rposition(|byte| *byte == b'@') else { return Ok(None) };
    let user = &found[..at];
    let start = match user.iter().position(|byte| *byte == b':') {
        Some(colon) => colon + 1,
        None if user.len() >= 20 && is_random(user) => 0,
        None => return Ok(None),
    };
    let password = &user[start..];
    let is_named = [&b"pass"[..], b"pwd", b"pw"].contains(&password);
    if password.len() < 3 || is_placeholder(password) || mentions_secret(password) || is_named {
        return Ok(None);
    }
    Ok(Some(Match { start: prefix + start, end: MatchEnd::Offset(prefix + at) }))
}

/// Matches `123456789:AA…`. The bot id is not redacted.
fn telegram(lookahead: &Lookahead<'_>) -> Result<Option<Match>, NeedMoreInput> {
    let digits = (1..=12)
        .take_while(|back| lookahead.back(*back).is_some_and(|byte| byte.is_ascii_digit()))
        .count();
    if !(6..=11).contains(&digits) {
        return Ok(None);
    }
    let count = lookahead.count(1, 36, |byte| CharClass::Word.has(byte))?;
    Ok((count == 35).then_some(Match { start: 1, end: MatchEnd::Offset(36) }))
}
