//! The forms in which a value may turn up.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
use zeroize::Zeroize;

/// Bytes of one piece. A longer form is looked for piece by piece, which bounds how far a stream must look ahead.
const PIECE_BYTES_MAX: usize = 1024;
/// Characters that a piece of base64 must have if it starts in the middle of other text: fewer turn up by chance.
const SHIFTED_CHARS_MIN: usize = 8;
/// Characters that the base64 of a value must have.
const BASE64_CHARS_MIN: usize = 5;

/// One text to look for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Form {
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
    /// Characters of base64 before it which hold some of its bits.
    pub(crate) before: u8,
    /// The same behind it.
    pub(crate) after: u8,
}

impl Drop for Form {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

/// All forms of a value, each one once and no longer than a piece.
pub(crate) fn forms(value: &str) -> Vec<Form> {
    let mut found = BTreeSet::new();
    let trimmed = value.trim();
    let is_padded = trimmed.len() >= crate::VALUE_BYTES_MIN && trimmed.len() < value.len();
    for value in [Some(value), is_padded.then_some(trimmed)].into_iter().flatten() {
        for mut text in texts(value) {
            split(&text, &mut found);
            text.zeroize();
        }
        base64(value.as_bytes(), &mut found);
    }
    found.into_iter().collect()
}

/// The forms that hold the value whole, wherever it starts.
fn texts(value: &str) -> Vec<String> {
    let escaped = json(value, false);
    let ascii = json(value, true);
    let mut all = vec![
        value.to_owned(),
        json(&escaped, false),
        escaped.replace('/', "\\/"),
        escaped,
        json(&ascii, false),
        ascii,
        hex(value, "0123456789abcdef"),
        hex(value, "0123456789ABCDEF"),
    ];
    // What is left as it is differs from one library to the next.
    for kept in [&b"-_.~"[..], b"-_.!~*'()", b"-_.*", b"-_.~;/?:@&=+$,#!'()*", b""] {
        let upper = percent(value, |byte| byte.is_ascii_alphanumeric() || kept.contains(&byte));
        all.push(lower_escapes(&upper));
        all.push(upper.replace("%20", "+"));
        all.push(upper);
    }
    let every = percent(value, |_| false);
    all.push(lower_escapes(&every));
    all.push(every);
    all
}

/// As a JSON string holds it, without its quotes.
fn json(value: &str, is_ascii: bool) -> String {
    let mut text = serde_json::to_string(value).unwrap_or_default();
    text.pop();
    if !text.is_empty() {
        text.remove(0);
    }
    if !is_ascii {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            plain.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                plain.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    plain
}

fn hex(value: &str, digits: &str) -> String {
    let digits = digits.as_bytes();
    let pair = |byte: u8| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]];
    value.bytes().flat_map(pair).map(char::from).collect()
}

fn percent(value: &str, is_kept: impl Fn(u8) -> bool) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        if is_kept(byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// `%2F` as `%2f`.
fn lower_escapes(text: &str) -> String {
    let mut left = 0u8;
    let lower = |c: char| {
        let is_digit = left > 0;
        left = if c == '%' { 2 } else { left.saturating_sub(1) };
        if is_digit { c.to_ascii_lowercase() } else { c }
    };
    text.chars().map(lower).collect()
}

/// Base64 in both alphabets, with the value at each of the three places that it can have in a group of bytes.
fn base64(value: &[u8], found: &mut BTreeSet<Form>) {
    for shift in 0..3 {
        let mut bytes = vec![0; shift];
        bytes.extend_from_slice(value);
        let first = (shift * 8).div_ceil(6);
        let last = bytes.len() * 8 / 6;
        let enough = if shift == 0 { BASE64_CHARS_MIN } else { SHIFTED_CHARS_MIN };
        if last < first + enough {
            continue;
        }
        let edges = (u8::from(shift > 0), u8::from(bytes.len() * 8 % 6 > 0));
        for mut text in [BASE64_STANDARD.encode(&bytes), BASE64_URL_SAFE.encode(&bytes)] {
            pieces(&text.as_bytes()[first..last], edges, found);
            text.zeroize();
        }
        bytes.zeroize();
    }
}

fn split(text: &str, found: &mut BTreeSet<Form>) {
    let mut rest = text;
    while rest.len() > PIECE_BYTES_MAX {
        // The last piece must not be so short that it turns up by chance.
        let mut middle =
            if rest.len() < 2 * PIECE_BYTES_MAX { rest.len() / 2 } else { PIECE_BYTES_MAX };
        while !rest.is_char_boundary(middle) {
            middle -= 1;
        }
        let (piece, more) = rest.split_at(middle);
        found.insert(Form { bytes: piece.into(), before: 0, after: 0 });
        rest = more;
    }
    found.insert(Form { bytes: rest.into(), before: 0, after: 0 });
}

fn pieces(text: &[u8], (before, after): (u8, u8), found: &mut BTreeSet<Form>) {
    let count = text.len().div_ceil(PIECE_BYTES_MAX).max(1);
    let size = text.len().div_ceil(count);
    for (place, piece) in text.chunks(size.max(1)).enumerate() {
        found.insert(Form {
            bytes: piece.to_vec(),
            before: if place == 0 { before } else { 0 },
            after: if place + 1 == count { after } else { 0 },
        });
    }
}
