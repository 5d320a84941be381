//! Keywords that precede secrets, and the syntax of a keyword with its value: in headers, nested JSON, queries,
//! environment files, command lines, XML and code.

mod header;
mod value;

use crate::lookahead::{BACK_MAX, Lookahead, NeedMoreInput};
use crate::scan::Match;
use crate::token_format::starts_word;
use crate::value_scanner::ValueKind;

pub(crate) use value::is_secret_string;

/// Maximum number of digits after a keyword, as in `password2`.
const DIGITS_MAX: usize = 2;
/// Maximum number of blanks on each side of a separator.
const BLANKS_MAX: usize = 16;
/// Maximum number of backslashes before a quote: four levels of nested strings.
const SLASHES_MAX: usize = 15;

/// Words before a weak keyword, such as `token`, that mean a harmless value.
const NON_SECRET_PREFIXES: [&str; 22] = [
    "page",
    "next",
    "prev",
    "cursor",
    "continuation",
    "cancel",
    "cancellation",
    "pad",
    "eos",
    "bos",
    "unk",
    "sep",
    "cls",
    "mask",
    "stop",
    "num",
    "sync",
    "resume",
    "max",
    "min",
    "public",
    "last",
];

/// Confidence that the value of a keyword is a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confidence {
    /// A password: any value can be one.
    Password,
    /// A specific kind of key or token.
    Strong,
    /// A word with other meanings.
    Weak,
    /// Only as a query parameter.
    Query,
    /// The `Authorization` header.
    Authorization,
    /// The `Cookie` and `Set-Cookie` headers.
    Cookie,
    /// The scheme before a token.
    Bearer,
    /// The scheme before a base64-encoded user name and password.
    Basic,
}

/// A keyword that precedes a secret.
#[derive(Debug)]
pub(crate) struct KeywordRule {
    /// Keyword in lower case.
    pub(crate) keyword: &'static str,
    pub(crate) confidence: Confidence,
}

/// Creates a rule.
const fn keyword(keyword: &'static str, confidence: Confidence) -> KeywordRule {
    KeywordRule { keyword, confidence }
}

use Confidence::{Authorization, Basic, Bearer, Cookie, Password, Query, Strong, Weak};

/// The keywords. Longer names end with one of them: `x-api-key`, `clientSecret`, `AWS_SECRET_ACCESS_KEY`.
pub(crate) const KEYWORD_RULES: &[KeywordRule] = &[
    keyword("password", Password),
    keyword("passwd", Password),
    keyword("passphrase", Password),
    keyword("passcode", Password),
    keyword("pass", Weak),
    keyword("pwd", Weak),
    keyword("secret", Weak),
    keyword("client_secret", Strong),
    keyword("client-secret", Strong),
    keyword("clientsecret", Strong),
    keyword("token", Weak),
    keyword("access_token", Strong),
    keyword("access-token", Strong),
    keyword("accesstoken", Strong),
    keyword("refresh_token", Strong),
    keyword("refresh-token", Strong),
    keyword("refreshtoken", Strong),
    keyword("auth_token", Strong),
    keyword("auth-token", Strong),
    keyword("authtoken", Strong),
    keyword("session_token", Strong),
    keyword("sessiontoken", Strong),
    keyword("security-token", Strong),
    keyword("id_token", Strong),
    keyword("bot_token", Strong),
    keyword("api_key", Strong),
    keyword("api-key", Strong),
    keyword("apikey", Strong),
    keyword("api key", Strong),
    keyword("access_key", Strong),
    keyword("access-key", Strong),
    keyword("accesskey", Strong),
    keyword("account_key", Strong),
    keyword("accountkey", Strong),
    keyword("secret_key", Strong),
    keyword("secret-key", Strong),
    keyword("secretkey", Strong),
    keyword("private_key", Strong),
    keyword("private-key", Strong),
    keyword("privatekey", Strong),
    keyword("signing_key", Strong),
    keyword("encryption_key", Strong),
    keyword("master_key", Strong),
    keyword("subscription-key", Strong),
    keyword("credential", Weak),
    keyword("credentials", Weak),
    keyword("signature", Query),
    keyword("sig", Query),
    keyword("authorization", Authorization),
    keyword("cookie", Cookie),
    keyword("bearer", Bearer),
    keyword("basic", Basic),
];

/// Syntax around a keyword.
#[derive(Debug, Clone, Copy, Default)]
struct KeywordContext {
    /// The keyword is in capitals.
    is_upper: bool,
    /// The name follows `?` or `&`.
    is_query: bool,
    /// The name starts with `--`.
    is_flag: bool,
    /// The name follows `<`.
    is_tag: bool,
}

/// Separator between a keyword and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Separator {
    /// `=` without blanks.
    Tight,
    /// `=`, `:=` or `=>` with blanks, or `==`.
    Spaced,
    /// `:`.
    Colon,
    /// `>` of a tag.
    Tag,
    /// A blank after a flag.
    Blank,
}

impl KeywordRule {
    /// Returns the secret value after this keyword. `None` if the position has another word, or the value is not a
    /// secret.
    pub(crate) fn find(&self, lookahead: &Lookahead<'_>) -> Result<Option<Match>, NeedMoreInput> {
        if !lookahead.has_word(0, self.keyword.as_bytes())? || !self.starts(lookahead)? {
            return Ok(None);
        }
        let len = self.keyword.len();
        match self.confidence {
            Bearer => return header::bearer(lookahead, len),
            Basic => return header::basic(lookahead, len),
            _ => {}
        }
        let len = len + lookahead.count(len, DIGITS_MAX, |byte| byte.is_ascii_digit())?;
        if lookahead
            .at(len)?
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        {
            return Ok(None);
        }
        if is_word_of_text(lookahead, len)? {
            return Ok(None);
        }
        let Some(context) = self.context(lookahead)? else { return Ok(None) };
        let Some((separator, value)) = separator(lookahead, len, context)? else { return Ok(None) };
        match self.confidence {
            Authorization => header::authorization(lookahead, value),
            Cookie => header::cookie(lookahead, value),
            confidence => value::find(lookahead, value, confidence, separator, context),
        }
    }

    /// Returns true if the name of a JSON member ends with this keyword.
    pub(crate) fn matches_name(&self, name: &str) -> bool {
        let name = name.trim_end_matches(|c: char| c.is_ascii_digit()).as_bytes();
        let Some(start) = name.len().checked_sub(self.keyword.len()) else { return false };
        let lookahead = Lookahead::new(name, start, true);
        let here = |found: Result<bool, NeedMoreInput>| found.unwrap_or(false);
        here(lookahead.has_word(0, self.keyword.as_bytes()))
            && here(self.starts(&lookahead))
            && self.context(&lookahead).is_ok_and(|context| context.is_some())
    }

    /// Returns true at the start of a name or of a part of it: after `_` or `-`, or at a capital letter inside.
    fn starts(&self, lookahead: &Lookahead<'_>) -> Result<bool, NeedMoreInput> {
        let is_part = lookahead.at(0)?.is_some_and(|byte| byte.is_ascii_uppercase())
            && lookahead.at(1)?.is_some_and(|byte| byte.is_ascii_lowercase())
            && lookahead
                .back(1)
                .is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        Ok(is_part || starts_word(lookahead))
    }

    /// Returns the syntax around the keyword. `None` if the name denotes a harmless value.
    fn context(&self, lookahead: &Lookahead<'_>) -> Result<Option<KeywordContext>, NeedMoreInput> {
        let mut is_upper = true;
        for position in 0..self.keyword.len() {
            is_upper &= !lookahead.at(position)?.is_some_and(|byte| byte.is_ascii_lowercase());
        }
        let back =
            (1..=BACK_MAX).take_while(|back| lookahead.back(*back).is_some_and(is_name)).count();
        let name = lookahead.before(back);
        let stem = name.strip_suffix(b"_").or(name.strip_suffix(b"-")).unwrap_or(name);
        if self.confidence == Weak
            && NON_SECRET_PREFIXES.iter().any(|keyword| ends_with_word(stem, keyword))
        {
            return Ok(None);
        }
        let before = lookahead.back(back + 1);
        Ok(Some(KeywordContext {
            is_upper,
            is_query: matches!(before, Some(b'?' | b'&')),
            is_flag: name.starts_with(b"--"),
            is_tag: matches!(before, Some(b'<')),
        }))
    }
}

/// Returns true if a keyword is an ordinary word: it starts a word, and a blank and a letter follow it.
fn is_word_of_text(lookahead: &Lookahead<'_>, len: usize) -> Result<bool, NeedMoreInput> {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic();
    let is_alone = !lookahead.back(1).is_some_and(is_name);
    Ok(is_alone
        && lookahead.at(len)? == Some(b' ')
        && lookahead.at(len + 1)?.is_some_and(is_letter))
}

/// Returns true for letters, digits, `_` and `-`.
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Returns true if a name ends with a word, ignoring ASCII case.
fn ends_with_word(name: &[u8], keyword: &str) -> bool {
    let start = name.len().checked_sub(keyword.len());
    start.is_some_and(|start| name[start..].eq_ignore_ascii_case(keyword.as_bytes()))
}

/// Returns the separator between the keyword and its value, and the position of the value.
fn separator(
    lookahead: &Lookahead<'_>,
    len: usize,
    context: KeywordContext,
) -> Result<Option<(Separator, usize)>, NeedMoreInput> {
    let Some(mut at) = after_quote(lookahead, len)? else { return Ok(None) };
    if lookahead.at(at)? == Some(b']') {
        at += 1;
    }
    let is_blank = |byte: u8| matches!(byte, b' ' | b'\t');
    let before = lookahead.count(at, BLANKS_MAX, is_blank)?;
    at += before;
    let (separator, width) = match lookahead.at(at)? {
        Some(b'=') => match lookahead.at(at + 1)? {
            Some(b'=' | b'>') => (Separator::Spaced, 2),
            Some(b'~') => return Ok(None),
            _ => (Separator::Tight, 1),
        },
        Some(b':') => match lookahead.at(at + 1)? {
            Some(b':') => return Ok(None),
            Some(b'=') => (Separator::Spaced, 2),
            _ => (Separator::Colon, 1),
        },
        Some(b'>') if context.is_tag && before == 0 => (Separator::Tag, 1),
        Some(b'%') if lookahead.has_word(at, b"%3d")? => (Separator::Tight, 3),
        Some(b'%') if lookahead.has_word(at, b"%3a")? => (Separator::Colon, 3),
        Some(_) if context.is_flag && before > 0 => (Separator::Blank, 0),
        _ => return Ok(None),
    };
    let start = at + width;
    let after = lookahead.count(start, BLANKS_MAX, is_blank)?;
    let is_wide = separator == Separator::Tight && before + after > 0;
    Ok(Some((if is_wide { Separator::Spaced } else { separator }, start + after)))
}

/// Returns the position after the closing quote of a name, or the same position if there is no quote. `None` if
/// backslashes precede something else.
fn after_quote(lookahead: &Lookahead<'_>, at: usize) -> Result<Option<usize>, NeedMoreInput> {
    match quote(lookahead, at)? {
        Some((start, _)) => Ok(Some(start)),
        None if lookahead.at(at)? == Some(b'\\') => Ok(None),
        None => Ok(Some(at)),
    }
}

/// Returns the position after a quote with its backslashes, and the kind of the quoted value. `None` if there is no
/// quote.
fn quote(
    lookahead: &Lookahead<'_>,
    at: usize,
) -> Result<Option<(usize, ValueKind)>, NeedMoreInput> {
    let slashes = lookahead.count(at, SLASHES_MAX, |byte| byte == b'\\')?;
    match lookahead.at(at + slashes)? {
        Some(quote @ (b'"' | b'\'' | b'`')) => {
            let slashes = u32::try_from(slashes).unwrap_or(0);
            let kind = ValueKind::Quoted { quote, slashes };
            Ok(Some((at + slashes as usize + 1, kind)))
        }
        _ => Ok(None),
    }
}
