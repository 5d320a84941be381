//! The extent of a value: up to the first byte that cannot belong to it.
//!
//! A scanner processes one byte at a time and keeps its state, so that a value can continue in a later chunk.

use crate::lookahead::BACK_MAX;

/// Maximum length of a private key, in bytes. It bounds the redaction if the end is missing.
const PEM_BYTES_MAX: usize = 16 * 1024;

/// Syntax of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// An unquoted word in a text, a query or a list.
    Bare,
    /// An unquoted word after an upper-case name, as in an environment file.
    Env,
    /// A header value inside a text: it ends at a line end, a quote or a backslash.
    Line,
    /// The rest of a line.
    Rest,
    /// A quoted value. `slashes` is the number of backslashes before its opening quote.
    Quoted { quote: u8, slashes: u32 },
    /// The characters of both base64 alphabets, and dots.
    Key,
    /// The body of a private key.
    Pem,
}

/// Scanner of one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValueScanner {
    pub(crate) kind: ValueKind,
    /// In quotes: number of backslashes directly before the next byte. In a private key: the two previous bytes.
    streak: u32,
    len: usize,
}

impl ValueScanner {
    /// Creates a scanner at the first byte of a value.
    pub(crate) fn new(kind: ValueKind) -> Self {
        Self { kind, streak: 0, len: 0 }
    }

    /// Scans bytes. Returns how many of them belong to the value, if it ends among them.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|byte| self.ends_at(*byte))
    }

    /// Returns the number of previous bytes that belong to the value only if it continues: the backslashes of its
    /// closing quote.
    pub(crate) fn undecided(&self) -> usize {
        match self.kind {
            ValueKind::Quoted { slashes, .. } => self.streak.min(slashes) as usize,
            _ => 0,
        }
    }

    /// Consumes a byte. Returns true if the value ends before it.
    fn ends_at(&mut self, byte: u8) -> bool {
        self.len = self.len.saturating_add(1);
        match self.kind {
            ValueKind::Bare => !is_bare(byte),
            ValueKind::Env => matches!(byte, 0..=b' ' | b'"' | b'\'' | b'`' | b'\\' | 0x7f),
            ValueKind::Line => matches!(byte, b'\r' | b'\n' | b'"' | b'\'' | b'\\'),
            ValueKind::Rest => matches!(byte, b'\r' | b'\n'),
            ValueKind::Key => !is_key(byte),
            ValueKind::Quoted { quote, slashes } => {
                if byte == quote && is_closing_quote(self.streak, slashes) {
                    return true;
                }
                self.streak = if byte == b'\\' { self.streak.saturating_add(1) } else { 0 };
                byte == b'\n' || byte == b'\r'
            }
            ValueKind::Pem => {
                let [.., second, first] = self.streak.to_be_bytes();
                self.streak = u32::from_be_bytes([0, 0, first, byte]);
                // Dashes in the headers of a key follow a letter or digit. The end marker starts a line.
                let starts = !first.is_ascii_alphanumeric() || (second, first) == (b'\\', b'n');
                (byte == b'-' && starts) || self.len > PEM_BYTES_MAX || !is_pem(byte)
            }
        }
    }
}

/// Returns true if a quote after `streak` backslashes closes a value whose opening quote had `slashes` backslashes.
///
/// Each level of quoting doubles the backslashes and adds one before a quote. Opening quotes therefore have zero, one,
/// three or seven backslashes, and a quote inside the value has twice as many plus one.
pub(crate) fn is_closing_quote(streak: u32, slashes: u32) -> bool {
    let period = 2 * (slashes.min(BACK_MAX as u32) + 1);
    streak < slashes || streak % period == slashes
}

/// Returns true if an unquoted value may contain the byte.
pub(crate) fn is_bare(byte: u8) -> bool {
    !matches!(
        byte,
        0..=b' '
            | b'"'
            | b'\''
            | b'`'
            | b'\\'
            | b'&'
            | b'<'
            | b'>'
            | b','
            | b';'
            | b')'
            | b']'
            | b'}'
            | b'|'
            | 0x7f
    )
}

/// Returns true if a key or token may contain the byte.
pub(crate) fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+' | b'/' | b'=' | b'~')
}

/// Returns true for the characters of a PEM body with its headers, also as an escaped string.
fn is_pem(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'+' | b'/'
                | b'='
                | b' '
                | b'\r'
                | b'\n'
                | b'\t'
                | b'\\'
                | b':'
                | b','
                | b'-'
                | b'"'
                | b'\''
        )
}
