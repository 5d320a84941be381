//! Access to the text around a position, while more text may follow.
//!
//! Invariant: a decision that uses only [`Lookahead`] does not depend on how the text is split into chunks, because
//! [`Lookahead`] reveals nothing about bytes that have not arrived.

/// Maximum lookahead of a decision, in bytes.
pub(crate) const AHEAD_MAX: usize = 2048;
/// Maximum lookbehind of a decision, in bytes.
pub(crate) const BACK_MAX: usize = 16;

/// Error: more text is needed for a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NeedMoreInput;

/// The text around a position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lookahead<'a> {
    bytes: &'a [u8],
    position: usize,
    is_end: bool,
}

impl<'a> Lookahead<'a> {
    /// Creates a view of a position. `is_end` states that no bytes follow.
    pub(crate) fn new(bytes: &'a [u8], position: usize, is_end: bool) -> Self {
        Self { bytes, position, is_end }
    }

    /// Returns the byte `ahead` bytes after the position. `None` at the end of the text or of the lookahead.
    pub(crate) fn at(&self, ahead: usize) -> Result<Option<u8>, NeedMoreInput> {
        if ahead >= AHEAD_MAX {
            return Ok(None);
        }
        match self.bytes.get(self.position + ahead) {
            Some(byte) => Ok(Some(*byte)),
            None if self.is_end => Ok(None),
            None => Err(NeedMoreInput),
        }
    }

    /// Returns the byte `back` bytes before the position.
    pub(crate) fn back(&self, back: usize) -> Option<u8> {
        if back > BACK_MAX {
            return None;
        }
        self.bytes.get(self.position.checked_sub(back)?).copied()
    }

    /// Returns up to `len` bytes before the position, limited by the lookbehind.
    pub(crate) fn before(&self, len: usize) -> &'a [u8] {
        let position = self.position.min(self.bytes.len());
        &self.bytes[position.saturating_sub(len.min(BACK_MAX))..position]
    }

    /// Returns true if `expected` is at this offset. Needs no more text than the first difference.
    pub(crate) fn has(&self, ahead: usize, expected: &[u8]) -> Result<bool, NeedMoreInput> {
        let start = (self.position + ahead).min(self.bytes.len());
        let actual = &self.bytes[start..(start + expected.len()).min(self.bytes.len())];
        if actual != &expected[..actual.len()] {
            return Ok(false);
        }
        match actual.len() == expected.len() {
            true => Ok(true),
            false if self.is_end => Ok(false),
            false => Err(NeedMoreInput),
        }
    }

    /// Returns true if `expected`, in lower case, is at this offset, ignoring ASCII case. Needs no more text than the
    /// first difference.
    pub(crate) fn has_word(&self, ahead: usize, expected: &[u8]) -> Result<bool, NeedMoreInput> {
        let actual = self.slice(ahead, expected.len());
        if !actual.eq_ignore_ascii_case(&expected[..actual.len()]) {
            return Ok(false);
        }
        match actual.len() == expected.len() {
            true => Ok(true),
            false if self.is_end => Ok(false),
            false => Err(NeedMoreInput),
        }
    }

    /// Returns the number of consecutive bytes that satisfy a condition, up to `max`.
    pub(crate) fn count(
        &self,
        ahead: usize,
        max: usize,
        condition: impl Fn(u8) -> bool,
    ) -> Result<usize, NeedMoreInput> {
        let mut count = 0;
        while count < max && self.at(ahead + count)?.is_some_and(&condition) {
            count += 1;
        }
        Ok(count)
    }

    /// Returns `len` bytes from `ahead` bytes after the position. Bytes that were not examined before may be missing.
    pub(crate) fn slice(&self, ahead: usize, len: usize) -> &'a [u8] {
        let start = (self.position + ahead).min(self.bytes.len());
        &self.bytes[start..(start + len).min(self.bytes.len())]
    }
}
