//! Classifies a value after a keyword: a secret, or a name, a type, a placeholder or a sentence.
//!
//! Agents read and edit code, and a type that is mistaken for a password corrupts a file. These rules therefore keep
//! text of programs and manuals about secrets, and redact only what looks like a secret.

/// Words that are not values.
const NON_VALUES: [&str; 56] = [
    "header",
    "headers",
    "scheme",
    "auth",
    "authentication",
    "authorization",
    "true",
    "false",
    "null",
    "none",
    "nil",
    "undefined",
    "string",
    "str",
    "text",
    "varchar",
    "char",
    "bytes",
    "number",
    "int",
    "integer",
    "float",
    "bool",
    "boolean",
    "object",
    "array",
    "any",
    "void",
    "required",
    "optional",
    "redacted",
    "hidden",
    "masked",
    "unset",
    "empty",
    "missing",
    "default",
    "example",
    "value",
    "self",
    "this",
    "pass",
    "invalid",
    "incorrect",
    "expired",
    "wrong",
    "unknown",
    "unavailable",
    "unauthorized",
    "rejected",
    "denied",
    "failed",
    "generated",
    "encrypted",
    "sensitive",
    "rotated",
];

/// Parts of words that show that a text is about secrets.
const SECRET_WORDS: [&str; 16] = [
    "password",
    "passwd",
    "passphrase",
    "token",
    "secret",
    "apikey",
    "api_key",
    "api-key",
    "_key",
    "-key",
    " key",
    "credential",
    "your",
    "example",
    "placeholder",
    "change me",
];

/// Returns true for placeholders such as `${NAME}`, `<password>`, `{{ secret }}`, `%s`, `****`, `xxxx` and `...`.
pub(crate) fn is_placeholder(value: &[u8]) -> bool {
    let wraps = |open: &[u8], close: &[u8]| {
        value.len() >= open.len() + close.len() && value.starts_with(open) && value.ends_with(close)
    };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_{}.:-?".contains(byte);
    let is_fill = |byte: u8| b"*xX.-_#?0".contains(&byte) || byte >= 0x80;
    let Some((first, rest)) = value.split_first() else { return true };
    match first {
        b'$' => rest.starts_with(b"{") || rest.starts_with(b"(") || rest.iter().all(is_name),
        b'<' => wraps(b"<", b">") || rest.iter().all(is_name),
        b'{' => wraps(b"{", b"}") || rest.starts_with(b"{"),
        b'[' => rest.starts_with(b"REDACTED") || wraps(b"[", b"]"),
        b'%' => value.len() <= 3 || rest.starts_with(b"(") || wraps(b"%", b"%"),
        b'(' => wraps(b"(", b")"),
        _ => {
            value.len() >= 3 && is_fill(*first) && rest.iter().all(|byte| byte == first)
                || !value.iter().any(|byte| byte.is_ascii_alphanumeric() || *byte >= 0x80)
                || value.starts_with(b"...")
                || value.ends_with(b"...")
                || value.starts_with("…".as_bytes())
                || value.ends_with("…".as_bytes())
        }
    }
}

/// Returns true if the value is one of [`NON_VALUES`], ignoring ASCII case.
pub(crate) fn is_non_value(value: &[u8]) -> bool {
    NON_VALUES.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

/// Returns true for prose that contains one of [`SECRET_WORDS`]: letters, blanks and punctuation only.
pub(crate) fn mentions_secret(value: &[u8]) -> bool {
    let is_prose = |byte: &u8| byte.is_ascii_alphabetic() || b" _-.,:'()".contains(byte);
    if !value.iter().all(is_prose) {
        return false;
    }
    let lower = value.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|topic| contains(&lower, topic.as_bytes()))
}

/// Returns true for expressions of a programming language: `self.password`, `Option<String>`, `crate::token`.
pub(crate) fn is_code(value: &[u8]) -> bool {
    if contains(value, b"::") || contains(value, b"->") || value.starts_with(b"&") {
        return true;
    }
    if value.iter().any(|byte| matches!(byte, b'(' | b'[' | b'{' | b'<')) {
        let name = value.iter().take_while(|byte| is_name(**byte) || **byte == b'.').count();
        return name > 0 && matches!(value[name..].first(), Some(b'(' | b'[' | b'{' | b'<'));
    }
    let mut parts = value.split(|byte| *byte == b'.');
    let dotted = value.contains(&b'.') && !value.ends_with(b".");
    dotted
        && parts.all(|part| {
            part.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
                && part.iter().all(|byte| is_name(*byte))
                && !is_mixed(part)
        })
}

/// Returns true for `/etc/key.pem`, `~/x`, `./x`, `C:\x` and URLs.
pub(crate) fn is_path(value: &[u8]) -> bool {
    value.starts_with(b"/")
        || value.starts_with(b"~/")
        || value.starts_with(b"./")
        || value.starts_with(b"../")
        || value.get(1..3).is_some_and(|rest| rest == b":\\")
        || contains(value, b"://")
}

/// Returns true if the value has only ASCII letters, `_` and `-`. Also true for an empty value.
pub(crate) fn is_word(value: &[u8]) -> bool {
    value.iter().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-'))
}

/// Returns true for a value that looks randomly generated: at least eight bytes with letters and digits, which no
/// path, expression or name explains.
pub(crate) fn is_random(value: &[u8]) -> bool {
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = value.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    if value.len() < 8 || digits == 0 || letters == 0 || value.iter().any(u8::is_ascii_whitespace) {
        return false;
    }
    if is_path(value) || is_code(value) {
        return false;
    }
    let is_sign = |byte: &u8| matches!(byte, b'-' | b'_' | b'.' | b':' | b'/' | b'@');
    !value.split(is_sign).all(is_simple)
}

/// Returns true for a part of a name: letters, a small number, or both, as in `sha256`, `v2` and `main`.
fn is_simple(part: &[u8]) -> bool {
    let letters = part.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let digits = part[letters..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = &part[letters + digits..];
    digits <= 4
        && (rest.is_empty()
            || letters <= 8 && rest.len() <= 8 && is_word(rest) && digits <= 3 && letters > 0)
}

/// Returns true if letters and digits alternate more than twice.
fn is_mixed(part: &[u8]) -> bool {
    let change = |pair: &&[u8]| pair[0].is_ascii_digit() != pair[1].is_ascii_digit();
    part.windows(2).filter(change).count() > 2
}

/// Returns true for ASCII letters, digits and `_`.
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns true if the text contains the part.
fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
