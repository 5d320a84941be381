//! The forms in which a value may turn up.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
use data_encoding::{HEXLOWER, HEXUPPER};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode_byte, utf8_percent_encode};
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

/// What libraries percent-encode: each leaves other characters as they are.
const ENCODED: [&AsciiSet; 5] = [
    &all_but(b"-_.~"),
    &all_but(b"-_.!~*'()"),
    &all_but(b"-_.*"),
    &all_but(b"-_.~;/?:@&=+$,#!'()*"),
    NON_ALPHANUMERIC,
];

const fn all_but(kept: &[u8]) -> AsciiSet {
    let mut set = NON_ALPHANUMERIC.remove(kept[0]);
    let mut at = 1;
    while at < kept.len() {
        set = set.remove(kept[at]);
        at += 1;
    }
    set
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
        HEXLOWER.encode(value.as_bytes()),
        HEXUPPER.encode(value.as_bytes()),
    ];
    for encoded in ENCODED {
        let upper = utf8_percent_encode(value, encoded).to_string();
        all.push(lower_escapes(&upper));
        all.push(upper.replace("%20", "+"));
        all.push(upper);
    }
    let every: String = value.bytes().map(percent_encode_byte).collect();
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
        let edges = Edges { before: u8::from(shift > 0), after: u8::from(bytes.len() * 8 % 6 > 0) };
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

/// Characters of base64 beside a text which hold some of its bits.
#[derive(Clone, Copy)]
struct Edges {
    before: u8,
    after: u8,
}

fn pieces(text: &[u8], edges: Edges, found: &mut BTreeSet<Form>) {
    let count = text.len().div_ceil(PIECE_BYTES_MAX).max(1);
    let size = text.len().div_ceil(count);
    for (place, piece) in text.chunks(size.max(1)).enumerate() {
        found.insert(Form {
            bytes: piece.to_vec(),
            before: if place == 0 { edges.before } else { 0 },
            after: if place + 1 == count { edges.after } else { 0 },
        });
    }
}
