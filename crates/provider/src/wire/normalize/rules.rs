//! Rules for names and ids, and replacements for invalid ones.

use ring::digest::{SHA256, digest};

/// Number of characters of the hash suffix that makes a changed name unique.
const SUFFIX_CHARS: usize = 8;
/// Number of characters of a generated id, if the rule allows it.
const ID_CHARS: usize = 24;
const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Characters that are allowed in a name or an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Charset {
    /// All characters.
    #[default]
    Any,
    /// Letters, digits, `_` and `-`.
    Word,
    /// Letters, digits, `_`, `-`, `.` and `:`.
    Dotted,
    /// Letters and digits.
    Alphanumeric,
}

impl Charset {
    fn contains(self, c: char) -> bool {
        match self {
            Self::Any => true,
            Self::Word => c.is_ascii_alphanumeric() || matches!(c, '_' | '-'),
            Self::Dotted => c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'),
            Self::Alphanumeric => c.is_ascii_alphanumeric(),
        }
    }
}

/// A vendor's rule for the names of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolNameRule {
    /// Allowed characters.
    pub charset: Charset,
    /// Largest number of characters.
    pub chars_max: usize,
    /// True if the first character must be a letter or `_`.
    pub letter_first: bool,
}

impl Default for ToolNameRule {
    fn default() -> Self {
        Self { charset: Charset::Word, chars_max: 64, letter_first: false }
    }
}

impl ToolNameRule {
    /// Rule that allows any name.
    pub const ANY: Self =
        Self { charset: Charset::Any, chars_max: usize::MAX, letter_first: false };

    /// Returns true if the name is allowed.
    pub fn allows(&self, name: &str) -> bool {
        let first = name.chars().next();
        let first_allowed = !self.letter_first
            || first.is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
        let all_allowed = match self.charset {
            Charset::Any => true,
            charset => name.chars().all(|c| charset.contains(c)),
        };
        // The length is counted in bytes. It is never below the number of characters, and equal to it in all charsets
        // except one.
        !name.is_empty() && first_allowed && all_allowed && name.len() <= self.chars_max
    }

    /// Replaces the characters that are not allowed by `_`. Different names can have the same result, which can still
    /// be too long.
    pub(super) fn sanitize(&self, name: &str) -> String {
        let mut sanitized: String =
            name.chars().map(|c| if self.charset.contains(c) { c } else { '_' }).collect();
        if !self.allows(sanitized.get(..1).unwrap_or("")) {
            sanitized.insert(0, '_');
        }
        sanitized
    }

    /// Returns an allowed name with a hash suffix, which makes it practically unique.
    pub(super) fn sanitize_with_suffix(&self, name: &str, round: usize) -> String {
        let suffix = hash_text(&format!("{round}/{name}"), SUFFIX_CHARS);
        let prefix_chars = self.chars_max.saturating_sub(SUFFIX_CHARS + 1);
        let mut sanitized: String = self.sanitize(name).chars().take(prefix_chars).collect();
        sanitized.push('_');
        sanitized.push_str(&suffix);
        sanitized
    }
}

/// A vendor's rule for the ids of tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallIdRule {
    /// Allowed characters.
    pub charset: Charset,
    /// Smallest number of characters.
    pub chars_min: usize,
    /// Largest number of characters.
    pub chars_max: usize,
}

impl Default for CallIdRule {
    fn default() -> Self {
        Self { charset: Charset::Any, chars_min: 1, chars_max: usize::MAX }
    }
}

impl CallIdRule {
    /// Returns true if the id is allowed.
    pub fn allows(&self, id: &str) -> bool {
        let allowed = match self.charset {
            Charset::Any => true,
            charset => id.chars().all(|c| charset.contains(c)),
        };
        allowed && (self.chars_min..=self.chars_max).contains(&id.len())
    }

    /// Returns an allowed id that replaces an invalid one. Equal ids have equal replacements.
    pub(super) fn replacement_for(&self, id: &str) -> String {
        hash_text(id, ID_CHARS.clamp(self.chars_min, self.chars_max))
    }
}

/// Returns this number of letters and digits, derived from the hash of a text.
fn hash_text(text: &str, chars: usize) -> String {
    let hash = digest(&SHA256, text.as_bytes());
    let bytes = hash.as_ref().iter().cycle().take(chars);
    bytes.map(|byte| char::from(DIGITS[usize::from(*byte) % DIGITS.len()])).collect()
}
