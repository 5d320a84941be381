//! The encodings in which a secret may occur.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
use data_encoding::{HEXLOWER, HEXUPPER};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode_byte, utf8_percent_encode};
use zeroize::Zeroize;

/// Maximum length of one pattern, in bytes. A longer encoding is split into several patterns, which limits the
/// lookahead of a stream.
const PIECE_BYTES_MAX: usize = 1024;
/// Minimum number of base64 characters of a secret that is not aligned to a base64 group. Shorter sequences occur by
/// chance.
const SHIFTED_CHARS_MIN: usize = 8;
/// Minimum number of base64 characters of an aligned secret.
const BASE64_CHARS_MIN: usize = 5;

/// A byte sequence to search for: one encoding of a secret, or a piece of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EncodedSecret {
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
    /// Number of preceding base64 characters that contain bits of the secret.
    pub(crate) before: u8,
    /// Number of following base64 characters that contain bits of the secret.
    pub(crate) after: u8,
}

impl Drop for EncodedSecret {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

/// Returns all encodings of a value, without duplicates, split into patterns.
pub(crate) fn encode_secret(value: &str) -> Vec<EncodedSecret> {
    let mut patterns = BTreeSet::new();
    let trimmed = value.trim();
    let is_padded = trimmed.len() >= crate::VALUE_BYTES_MIN && trimmed.len() < value.len();
    for value in [Some(value), is_padded.then_some(trimmed)].into_iter().flatten() {
        for mut text in texts(value) {
            split(&text, &mut patterns);
            text.zeroize();
        }
        base64(value.as_bytes(), &mut patterns);
    }
    patterns.into_iter().collect()
}

/// Sets of characters that common libraries percent-encode.
const ENCODED: [&AsciiSet; 5] = [
    &all_but(b"-_.~"),
    &all_but(b"-_.!~*'()"),
    &all_but(b"-_.*"),
    &all_but(b"-_.~;/?:@&=+$,#!'()*"),
    NON_ALPHANUMERIC,
];

/// Returns the set of all ASCII bytes except `kept`.
const fn all_but(kept: &[u8]) -> AsciiSet {
    let mut set = NON_ALPHANUMERIC.remove(kept[0]);
    let mut at = 1;
    while at < kept.len() {
        set = set.remove(kept[at]);
        at += 1;
    }
    set
}

/// Returns the encodings that do not depend on the position of the value.
fn texts(value: &str) -> Vec<String> {
    let escaped = json(value, false);
    let ascii = json(value, true);
    let mut encodings = vec![
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
        encodings.push(lower_escapes(&upper));
        encodings.push(upper.replace("%20", "+"));
        encodings.push(upper);
    }
    let every: String = value.bytes().map(percent_encode_byte).collect();
    encodings.push(lower_escapes(&every));
    encodings.push(every);
    encodings
}

/// Returns the content of a JSON string, without its quotes.
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

/// Converts escapes to lower case: `%2F` becomes `%2f`.
fn lower_escapes(text: &str) -> String {
    let mut left = 0u8;
    let lower = |c: char| {
        let is_digit = left > 0;
        left = if c == '%' { 2 } else { left.saturating_sub(1) };
        if is_digit { c.to_ascii_lowercase() } else { c }
    };
    text.chars().map(lower).collect()
}

/// Adds the base64 encodings in both alphabets, for each of the three alignments of the value. Encodings that are too
/// short to be distinctive are omitted.
fn base64(value: &[u8], patterns: &mut BTreeSet<EncodedSecret>) {
    for shift in 0..3 {
        let mut bytes = vec![0; shift];
        bytes.extend_from_slice(value);
        let first = (shift * 8).div_ceil(6);
        let last = bytes.len() * 8 / 6;
        let min = if shift == 0 { BASE64_CHARS_MIN } else { SHIFTED_CHARS_MIN };
        if last < first + min {
            continue;
        }
        let edges = Edges { before: u8::from(shift > 0), after: u8::from(bytes.len() * 8 % 6 > 0) };
        for mut text in [BASE64_STANDARD.encode(&bytes), BASE64_URL_SAFE.encode(&bytes)] {
            add_pieces(&text.as_bytes()[first..last], edges, patterns);
            text.zeroize();
        }
        bytes.zeroize();
    }
}

/// Adds a text as one pattern, or as several pieces if it is longer than [`PIECE_BYTES_MAX`].
fn split(text: &str, patterns: &mut BTreeSet<EncodedSecret>) {
    let mut rest = text;
    while rest.len() > PIECE_BYTES_MAX {
        // The last piece must be long enough not to occur by chance.
        let mut middle =
            if rest.len() < 2 * PIECE_BYTES_MAX { rest.len() / 2 } else { PIECE_BYTES_MAX };
        while !rest.is_char_boundary(middle) {
            middle -= 1;
        }
        let (piece, more) = rest.split_at(middle);
        patterns.insert(EncodedSecret { bytes: piece.into(), before: 0, after: 0 });
        rest = more;
    }
    patterns.insert(EncodedSecret { bytes: rest.into(), before: 0, after: 0 });
}

/// Number of base64 characters next to a text that contain bits of it.
#[derive(Clone, Copy)]
struct Edges {
    before: u8,
    after: u8,
}

/// Adds base64 text in pieces of equal size. Only the first and the last piece have an edge.
fn add_pieces(text: &[u8], edges: Edges, patterns: &mut BTreeSet<EncodedSecret>) {
    let count = text.len().div_ceil(PIECE_BYTES_MAX).max(1);
    let size = text.len().div_ceil(count);
    for (position, piece) in text.chunks(size.max(1)).enumerate() {
        patterns.insert(EncodedSecret {
            bytes: piece.to_vec(),
            before: if position == 0 { edges.before } else { 0 },
            after: if position + 1 == count { edges.after } else { 0 },
        });
    }
}
