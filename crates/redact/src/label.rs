//! Names behind which secrets stand, and how a name and its value are written: in headers, JSON at any depth of quoting,
//! queries, environment files, command lines, XML and code.

mod behind;
mod header;

use crate::peek::{BACK_MAX, Peek, Short};
use crate::run::RunKind;
use crate::scan::Found;
use crate::shape::starts_word;

pub(crate) use behind::is_hidden_string;

/// Digits that may follow a label, as in `password2`.
const DIGITS_MAX: usize = 2;
/// Blanks on each side of what stands between a label and its value.
const BLANKS_MAX: usize = 16;
/// Backslashes before a quote: a string in a string in a string in a string.
const SLASHES_MAX: usize = 15;

/// Words before `token` and the like which say that it is no secret.
const HARMLESS: [&str; 22] = [
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

/// How much a label says about what stands behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strength {
    /// A password: anything may be one.
    Pass,
    /// A key or token of a certain sort.
    Strong,
    /// A word that has other uses.
    Weak,
    /// Only where it is a parameter of a query.
    Query,
    /// The header `Authorization`.
    Authorization,
    /// The headers `Cookie` and `Set-Cookie`.
    Cookie,
    /// The word before a token.
    Bearer,
    /// The word before a name and a password in base64.
    Basic,
}

/// A name behind which a secret stands.
#[derive(Debug)]
pub(crate) struct Label {
    /// In lower case.
    pub(crate) word: &'static str,
    pub(crate) strength: Strength,
}

const fn label(word: &'static str, strength: Strength) -> Label {
    Label { word, strength }
}

use Strength::{Authorization, Basic, Bearer, Cookie, Pass, Query, Strong, Weak};

/// The labels. Longer names end with one of them: `x-api-key`, `clientSecret`, `AWS_SECRET_ACCESS_KEY`.
pub(crate) const LABELS: &[Label] = &[
    label("password", Pass),
    label("passwd", Pass),
    label("passphrase", Pass),
    label("passcode", Pass),
    label("pass", Weak),
    label("pwd", Weak),
    label("secret", Weak),
    label("client_secret", Strong),
    label("client-secret", Strong),
    label("clientsecret", Strong),
    label("token", Weak),
    label("access_token", Strong),
    label("access-token", Strong),
    label("accesstoken", Strong),
    label("refresh_token", Strong),
    label("refresh-token", Strong),
    label("refreshtoken", Strong),
    label("auth_token", Strong),
    label("auth-token", Strong),
    label("authtoken", Strong),
    label("session_token", Strong),
    label("sessiontoken", Strong),
    label("security-token", Strong),
    label("id_token", Strong),
    label("bot_token", Strong),
    label("api_key", Strong),
    label("api-key", Strong),
    label("apikey", Strong),
    label("api key", Strong),
    label("access_key", Strong),
    label("access-key", Strong),
    label("accesskey", Strong),
    label("account_key", Strong),
    label("accountkey", Strong),
    label("secret_key", Strong),
    label("secret-key", Strong),
    label("secretkey", Strong),
    label("private_key", Strong),
    label("private-key", Strong),
    label("privatekey", Strong),
    label("signing_key", Strong),
    label("encryption_key", Strong),
    label("master_key", Strong),
    label("subscription-key", Strong),
    label("credential", Weak),
    label("credentials", Weak),
    label("signature", Query),
    label("sig", Query),
    label("authorization", Authorization),
    label("cookie", Cookie),
    label("bearer", Bearer),
    label("basic", Basic),
];

/// Where a label stands.
#[derive(Debug, Clone, Copy, Default)]
struct Site {
    /// In capitals.
    is_upper: bool,
    /// Behind `?` or `&`.
    is_query: bool,
    /// Behind `--`.
    is_flag: bool,
    /// Behind `<`.
    is_tag: bool,
}

/// What stands between a label and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// `=`, with nothing around it.
    Tight,
    /// `=`, `:=`, `=>` with blanks, or `==`.
    Spaced,
    /// `:`.
    Colon,
    /// `>` of a tag.
    Tag,
    /// A blank after a flag.
    Blank,
}

impl Label {
    /// Whether a secret stands behind this label here.
    pub(crate) fn find(&self, peek: &Peek<'_>) -> Result<Option<Found>, Short> {
        if !peek.has_word(0, self.word.as_bytes())? || !self.starts(peek)? {
            return Ok(None);
        }
        let len = self.word.len();
        match self.strength {
            Bearer => return header::bearer(peek, len),
            Basic => return header::basic(peek, len),
            _ => {}
        }
        let len = len + peek.count(len, DIGITS_MAX, |byte| byte.is_ascii_digit())?;
        if peek.at(len)?.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)) {
            return Ok(None);
        }
        if is_word_of_text(peek, len)? {
            return Ok(None);
        }
        let Some(site) = self.site(peek)? else { return Ok(None) };
        let Some((sign, value)) = sign(peek, len, site)? else { return Ok(None) };
        match self.strength {
            Authorization => header::authorization(peek, value),
            Cookie => header::cookie(peek, value),
            strength => behind::find(peek, value, strength, sign, site),
        }
    }

    /// True if the name of a JSON member ends with this label.
    pub(crate) fn ends(&self, name: &str) -> bool {
        let name = name.trim_end_matches(|c: char| c.is_ascii_digit()).as_bytes();
        let Some(start) = name.len().checked_sub(self.word.len()) else { return false };
        let peek = Peek::new(name, start, true);
        let here = |found: Result<bool, Short>| found.unwrap_or(false);
        here(peek.has_word(0, self.word.as_bytes()))
            && here(self.starts(&peek))
            && self.site(&peek).is_ok_and(|site| site.is_some())
    }

    /// A name starts here, or a part of one: behind `_` or `-`, or with a capital in the middle.
    fn starts(&self, peek: &Peek<'_>) -> Result<bool, Short> {
        let is_part = peek.at(0)?.is_some_and(|byte| byte.is_ascii_uppercase())
            && peek.at(1)?.is_some_and(|byte| byte.is_ascii_lowercase())
            && peek.back(1).is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        Ok(is_part || starts_word(peek))
    }

    /// Where it stands; nothing if the name is that of something harmless.
    fn site(&self, peek: &Peek<'_>) -> Result<Option<Site>, Short> {
        let mut is_upper = true;
        for place in 0..self.word.len() {
            is_upper &= !peek.at(place)?.is_some_and(|byte| byte.is_ascii_lowercase());
        }
        let back = (1..=BACK_MAX).take_while(|back| peek.back(*back).is_some_and(is_name)).count();
        let name = peek.behind(back);
        let stem = name.strip_suffix(b"_").or(name.strip_suffix(b"-")).unwrap_or(name);
        if self.strength == Weak && HARMLESS.iter().any(|word| ends_with_word(stem, word)) {
            return Ok(None);
        }
        let before = peek.back(back + 1);
        Ok(Some(Site {
            is_upper,
            is_query: matches!(before, Some(b'?' | b'&')),
            is_flag: name.starts_with(b"--"),
            is_tag: matches!(before, Some(b'<')),
        }))
    }
}

/// True for a label that is a word among words, as almost every one is: no sign stands behind it, and it is no flag.
fn is_word_of_text(peek: &Peek<'_>, len: usize) -> Result<bool, Short> {
    let goes_on = |byte: u8| byte.is_ascii_alphabetic();
    let is_alone = !peek.back(1).is_some_and(is_name);
    Ok(is_alone && peek.at(len)? == Some(b' ') && peek.at(len + 1)?.is_some_and(goes_on))
}

/// True for what names are made of.
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Whether a name ends with a word in lower case, whatever the case of its own letters.
fn ends_with_word(name: &[u8], word: &str) -> bool {
    let start = name.len().checked_sub(word.len());
    start.is_some_and(|start| name[start..].eq_ignore_ascii_case(word.as_bytes()))
}

/// What stands between the label and its value, and where the value starts.
fn sign(peek: &Peek<'_>, len: usize, site: Site) -> Result<Option<(Sign, usize)>, Short> {
    let Some(mut at) = after_quote(peek, len)? else { return Ok(None) };
    if peek.at(at)? == Some(b']') {
        at += 1;
    }
    let is_blank = |byte: u8| matches!(byte, b' ' | b'\t');
    let before = peek.count(at, BLANKS_MAX, is_blank)?;
    at += before;
    let (sign, width) = match peek.at(at)? {
        Some(b'=') => match peek.at(at + 1)? {
            Some(b'=' | b'>') => (Sign::Spaced, 2),
            Some(b'~') => return Ok(None),
            _ => (Sign::Tight, 1),
        },
        Some(b':') => match peek.at(at + 1)? {
            Some(b':') => return Ok(None),
            Some(b'=') => (Sign::Spaced, 2),
            _ => (Sign::Colon, 1),
        },
        Some(b'>') if site.is_tag && before == 0 => (Sign::Tag, 1),
        Some(b'%') if peek.has_word(at, b"%3d")? => (Sign::Tight, 3),
        Some(b'%') if peek.has_word(at, b"%3a")? => (Sign::Colon, 3),
        Some(_) if site.is_flag && before > 0 => (Sign::Blank, 0),
        _ => return Ok(None),
    };
    let start = at + width;
    let after = peek.count(start, BLANKS_MAX, is_blank)?;
    let is_wide = sign == Sign::Tight && before + after > 0;
    Ok(Some((if is_wide { Sign::Spaced } else { sign }, start + after)))
}

/// The place behind the quote that closes a name, or the same place; nothing if backslashes lead nowhere.
fn after_quote(peek: &Peek<'_>, at: usize) -> Result<Option<usize>, Short> {
    match quote(peek, at)? {
        Some((start, _)) => Ok(Some(start)),
        None if peek.at(at)? == Some(b'\\') => Ok(None),
        None => Ok(Some(at)),
    }
}

/// The place behind a quote with its backslashes, and what lies within.
fn quote(peek: &Peek<'_>, at: usize) -> Result<Option<(usize, RunKind)>, Short> {
    let slashes = peek.count(at, SLASHES_MAX, |byte| byte == b'\\')?;
    match peek.at(at + slashes)? {
        Some(quote @ (b'"' | b'\'' | b'`')) => {
            let slashes = u32::try_from(slashes).unwrap_or(0);
            let kind = RunKind::Quoted { quote, slashes };
            Ok(Some((at + slashes as usize + 1, kind)))
        }
        _ => Ok(None),
    }
}
