//! How far a value reaches: until something that cannot belong to it.
//!
//! A run is stepped byte by byte and remembers what it needs, so that it may go on in a later chunk.

use crate::peek::BACK_MAX;

/// Bytes of a private key at most, so that one without an end does not swallow everything.
const PEM_BYTES_MAX: usize = 16 * 1024;

/// What a value is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunKind {
    /// A bare word in a text, a query or a list.
    Bare,
    /// A bare word behind a name in capitals, as in an environment file.
    Env,
    /// The value of a header.
    Line,
    /// The rest of a line.
    Rest,
    /// Inside quotes which themselves stand behind so many backslashes.
    Quoted { quote: u8, slashes: u32 },
    /// The characters of base64 in both alphabets, and dots.
    Key,
    /// The body of a private key.
    Pem,
}

/// A value that is being passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) kind: RunKind,
    /// In quotes: backslashes right before the next byte. In a private key: the two bytes before it.
    streak: u32,
    len: usize,
}

impl Run {
    pub(crate) fn new(kind: RunKind) -> Self {
        Self { kind, streak: 0, len: 0 }
    }

    /// Goes over bytes; says how many of them belong to the value if it ends among them.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|byte| self.is_over(*byte))
    }

    /// Bytes before the next one that belong to the value only if it goes on: the backslashes of a quote that ends it.
    pub(crate) fn unsure(&self) -> usize {
        match self.kind {
            RunKind::Quoted { slashes, .. } => self.streak.min(slashes) as usize,
            _ => 0,
        }
    }

    fn is_over(&mut self, byte: u8) -> bool {
        self.len = self.len.saturating_add(1);
        match self.kind {
            RunKind::Bare => !is_bare(byte),
            RunKind::Env => matches!(byte, 0..=b' ' | b'"' | b'\'' | b'`' | b'\\' | 0x7f),
            RunKind::Line => matches!(byte, b'\r' | b'\n' | b'"' | b'\'' | b'\\'),
            RunKind::Rest => matches!(byte, b'\r' | b'\n'),
            RunKind::Key => !is_key(byte),
            RunKind::Quoted { quote, slashes } => {
                if byte == quote && closes(self.streak, slashes) {
                    return true;
                }
                self.streak = if byte == b'\\' { self.streak.saturating_add(1) } else { 0 };
                byte == b'\n' || byte == b'\r'
            }
            RunKind::Pem => {
                let [.., second, first] = self.streak.to_be_bytes();
                self.streak = u32::from_be_bytes([0, 0, first, byte]);
                // Dashes within the headers of a key stand between letters, those of its end at the start of a line.
                let starts = !first.is_ascii_alphanumeric() || (second, first) == (b'\\', b'n');
                (byte == b'-' && starts) || self.len > PEM_BYTES_MAX || !is_pem(byte)
            }
        }
    }
}

/// Whether a quote behind so many backslashes ends a value whose opening quote stood behind so many.
///
/// Each level of quoting doubles the backslashes and adds one before a quote: after none, one, three or seven of them a
/// string begins, and within it twice as many and one more make a quote that belongs to the text.
pub(crate) fn closes(streak: u32, slashes: u32) -> bool {
    let period = 2 * (slashes.min(BACK_MAX as u32) + 1);
    streak < slashes || streak % period == slashes
}

/// True for what a bare value is made of.
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

/// True for what keys and tokens are made of.
pub(crate) fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+' | b'/' | b'=' | b'~')
}

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
