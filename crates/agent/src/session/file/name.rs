//! Session ids as file names, and back.
//!
//! A name is made only of lower-case letters, digits, `-`, `_`, `%` and `.`, so no id can leave the directory, and ids that
//! differ in case stay apart on file systems that do not see case. The prefix keeps names such as `con` and `..` harmless.

/// What a session's file ends in.
const SUFFIX: &str = ".jsonl";
/// Starts a name that shows the id, with other bytes as `%` and two hex digits.
const ESCAPED: &str = "s-";
/// Starts a name that holds the id in base 32, for ids that would be too long with escapes.
const PACKED: &str = "x-";
/// Bytes of an escaped id; file systems end at 255 for the whole name.
const ESCAPED_BYTES_MAX: usize = 200;

const HEX: &[u8; 16] = b"0123456789abcdef";
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The file name of an id. Different ids have different names.
pub(super) fn encode(id: &str) -> String {
    let escaped = escape(id.as_bytes());
    if escaped.len() <= ESCAPED_BYTES_MAX {
        return format!("{ESCAPED}{escaped}{SUFFIX}");
    }
    format!("{PACKED}{}{SUFFIX}", pack(id.as_bytes()))
}

/// The id of a file name, or `None` if [`encode`] never gives this name.
pub(super) fn decode(name: &str) -> Option<String> {
    let stem = name.strip_suffix(SUFFIX)?;
    let bytes = if let Some(escaped) = stem.strip_prefix(ESCAPED) {
        unescape(escaped)?
    } else {
        unpack(stem.strip_prefix(PACKED)?)?
    };
    let id = String::from_utf8(bytes).ok()?;
    (encode(&id) == name).then_some(id)
}

fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_') {
            text.push(char::from(byte));
        } else {
            text.push('%');
            text.push(char::from(HEX[usize::from(byte >> 4)]));
            text.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    text
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = place(HEX, rest.next()?)?;
            let low = place(HEX, rest.next()?)?;
            bytes.push(high << 4 | low);
        } else {
            bytes.push(byte);
        }
    }
    Some(bytes)
}

fn pack(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(5) * 8);
    let (mut held, mut bits) = (0u32, 0u32);
    for &byte in bytes {
        held = held << 8 | u32::from(byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(BASE32[(held >> bits & 31) as usize]));
        }
        held &= (1 << bits) - 1;
    }
    if bits > 0 {
        text.push(char::from(BASE32[(held << (5 - bits) & 31) as usize]));
    }
    text
}

fn unpack(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 5 / 8);
    let (mut held, mut bits) = (0u32, 0u32);
    for byte in text.bytes() {
        held = held << 5 | u32::from(place(BASE32, byte)?);
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits).ok()?);
            held &= (1 << bits) - 1;
        }
    }
    Some(bytes)
}

fn place(alphabet: &[u8], byte: u8) -> Option<u8> {
    let place = alphabet.iter().position(|&known| known == byte)?;
    u8::try_from(place).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::SESSION_ID_BYTES_MAX;
    use super::*;

    #[test]
    fn names_are_readable_and_harmless() {
        for (id, name) in [
            ("", "s-.jsonl"),
            ("chat-1_a", "s-chat-1_a.jsonl"),
            ("..", "s-%2e%2e.jsonl"),
            ("../etc/passwd", "s-%2e%2e%2fetc%2fpasswd.jsonl"),
            ("a\0b", "s-a%00b.jsonl"),
            ("Chat", "s-%43hat.jsonl"),
            ("con", "s-con.jsonl"),
        ] {
            assert_eq!(encode(id), name);
            assert_eq!(decode(name).as_deref(), Some(id));
        }
    }

    #[test]
    fn foreign_names_are_no_sessions() {
        for name in [
            "",
            "notes.txt",
            "chat.jsonl",
            "s-%4.jsonl",
            "s-%zz.jsonl",
            "s-%61.jsonl",
            "s-A.jsonl",
            "s-%ff.jsonl",
            "x-mzxw6.jsonl",
            "s-a.jsonl.tmp",
        ] {
            assert_eq!(decode(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn every_id_comes_back_and_fits(id in any::<String>()) {
            let mut end = id.len().min(SESSION_ID_BYTES_MAX);
            while !id.is_char_boundary(end) {
                end -= 1;
            }
            let id = &id[..end];
            let name = encode(id);
            prop_assert!(name.len() <= 250, "{}", name);
            prop_assert_eq!(&name.to_lowercase(), &name);
            prop_assert!(!name.contains(['/', '\\', '\0', ':']));
            let back = decode(&name);
            prop_assert_eq!(back.as_deref(), Some(id));
        }
    }

    #[test]
    fn the_longest_ids_are_packed() {
        let id = "記".repeat(SESSION_ID_BYTES_MAX / 3);
        let name = encode(&id);
        assert!(name.starts_with(PACKED) && name.len() <= 250, "{name}");
        assert_eq!(decode(&name), Some(id));
    }
}
