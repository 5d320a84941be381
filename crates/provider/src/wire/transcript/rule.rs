//! What names and ids may look like, and others in their place.

use ring::digest::{SHA256, digest};

/// Characters of a name's own that stay before the mark that makes a changed name unlike all others.
const MARK_CHARS: usize = 8;
/// Characters of an id that is made up, where the vendor takes as many.
const ID_CHARS: usize = 24;
const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Characters a vendor takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Charset {
    /// Whatever there is.
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
    fn has(self, c: char) -> bool {
        match self {
            Self::Any => true,
            Self::Word => c.is_ascii_alphanumeric() || matches!(c, '_' | '-'),
            Self::Dotted => c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'),
            Self::Alphanumeric => c.is_ascii_alphanumeric(),
        }
    }
}

/// What the name of a tool may look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameRule {
    /// Its characters.
    pub charset: Charset,
    /// How many at most.
    pub chars_max: usize,
    /// True if the first one must be a letter or `_`.
    pub letter_first: bool,
}

impl Default for NameRule {
    fn default() -> Self {
        Self { charset: Charset::Word, chars_max: 64, letter_first: false }
    }
}

impl NameRule {
    /// Any name goes.
    pub const ANY: Self =
        Self { charset: Charset::Any, chars_max: usize::MAX, letter_first: false };

    /// True if a tool may be called so.
    pub fn allows(&self, name: &str) -> bool {
        let first = name.chars().next();
        let first_fits = !self.letter_first
            || first.is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
        let all_fit = match self.charset {
            Charset::Any => true,
            charset => name.chars().all(|c| charset.has(c)),
        };
        // In bytes, which are at least as many as characters, and in all but one charset exactly as many.
        !name.is_empty() && first_fits && all_fit && name.len() <= self.chars_max
    }

    /// The nearest name that is allowed; several names may have the same.
    pub(super) fn nearest(&self, name: &str) -> String {
        let mut near: String =
            name.chars().map(|c| if self.charset.has(c) { c } else { '_' }).collect();
        if !self.allows(near.get(..1).unwrap_or("")) {
            near.insert(0, '_');
        }
        near
    }

    /// A name that is as good as certain to be this name's only.
    pub(super) fn marked(&self, name: &str, round: usize) -> String {
        let mark = spell(&format!("{round}/{name}"), MARK_CHARS);
        let room = self.chars_max.saturating_sub(MARK_CHARS + 1);
        let mut near: String = self.nearest(name).chars().take(room).collect();
        near.push('_');
        near.push_str(&mark);
        near
    }
}

/// What the id of a call may look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRule {
    /// Its characters.
    pub charset: Charset,
    /// How many at least.
    pub chars_min: usize,
    /// How many at most.
    pub chars_max: usize,
}

impl Default for IdRule {
    fn default() -> Self {
        Self { charset: Charset::Any, chars_min: 1, chars_max: usize::MAX }
    }
}

impl IdRule {
    /// True if a call may have this id.
    pub fn allows(&self, id: &str) -> bool {
        let fits = match self.charset {
            Charset::Any => true,
            charset => id.chars().all(|c| charset.has(c)),
        };
        fits && (self.chars_min..=self.chars_max).contains(&id.len())
    }

    /// An allowed id in the place of this one, always the same.
    pub(super) fn instead_of(&self, id: &str) -> String {
        spell(id, ID_CHARS.clamp(self.chars_min, self.chars_max))
    }
}

/// So many letters and digits that stand for a text.
fn spell(text: &str, chars: usize) -> String {
    let hash = digest(&SHA256, text.as_bytes());
    let bytes = hash.as_ref().iter().cycle().take(chars);
    bytes.map(|byte| char::from(DIGITS[usize::from(*byte) % DIGITS.len()])).collect()
}
