//! Lossless text of bytes, and phrases for notes.

use std::fmt::Write;

/// Returns bytes as text. Invalid UTF-8 becomes `\xNN`.
pub fn escape_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            write!(text, "\\x{byte:02X}").ok();
        }
    }
    text
}

/// Returns a name on one line: like [`escape_bytes`], with escaped control characters.
pub fn escape_name(bytes: &[u8]) -> String {
    let mut name = String::with_capacity(bytes.len());
    for c in escape_bytes(bytes).chars() {
        if c.is_control() {
            name.extend(c.escape_default());
        } else {
            name.push(c);
        }
    }
    name
}

/// Formats a number with a noun: `1 line`, `2 lines`, `2 entries`, `2 matches`.
pub fn count(number: u64, noun: &str) -> String {
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) if noun.ends_with("ch") => format!("{number} {noun}es"),
        (_, None) => format!("{number} {noun}s"),
    }
}
