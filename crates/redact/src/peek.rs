//! A look at text that may go on.
//!
//! Invariant: whoever decides only by what [`Peek`] tells decides the same however the text was cut into chunks, because it
//! tells nothing about bytes that have not come yet.

/// How far ahead a decision may look.
pub(crate) const AHEAD_MAX: usize = 2048;
/// How far back a decision may look.
pub(crate) const BACK_MAX: usize = 16;

/// More text is needed to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Short;

/// The text around a place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peek<'a> {
    bytes: &'a [u8],
    place: usize,
    is_end: bool,
}

impl<'a> Peek<'a> {
    /// A look at a place; `is_end` says that nothing comes after the bytes.
    pub(crate) fn new(bytes: &'a [u8], place: usize, is_end: bool) -> Self {
        Self { bytes, place, is_end }
    }

    /// The byte so far ahead; nothing at the end of the text or of sight.
    pub(crate) fn at(&self, ahead: usize) -> Result<Option<u8>, Short> {
        if ahead >= AHEAD_MAX {
            return Ok(None);
        }
        match self.bytes.get(self.place + ahead) {
            Some(byte) => Ok(Some(*byte)),
            None if self.is_end => Ok(None),
            None => Err(Short),
        }
    }

    /// The byte so far back; one is the byte before the place.
    pub(crate) fn back(&self, back: usize) -> Option<u8> {
        if back > BACK_MAX {
            return None;
        }
        self.bytes.get(self.place.checked_sub(back)?).copied()
    }

    /// So many bytes right before the place, as far as there are so many within sight.
    pub(crate) fn behind(&self, len: usize) -> &'a [u8] {
        let place = self.place.min(self.bytes.len());
        &self.bytes[place.saturating_sub(len.min(BACK_MAX))..place]
    }

    /// True if these very bytes are so far ahead. It does not ask for more than it takes to see that they are not.
    pub(crate) fn has(&self, ahead: usize, wanted: &[u8]) -> Result<bool, Short> {
        let start = (self.place + ahead).min(self.bytes.len());
        let there = &self.bytes[start..(start + wanted.len()).min(self.bytes.len())];
        if there != &wanted[..there.len()] {
            return Ok(false);
        }
        match there.len() == wanted.len() {
            true => Ok(true),
            false if self.is_end => Ok(false),
            false => Err(Short),
        }
    }

    /// Like [`Peek::has`] for ASCII, whatever the case of its letters. `wanted` is in lower case.
    pub(crate) fn has_word(&self, ahead: usize, wanted: &[u8]) -> Result<bool, Short> {
        let there = self.slice(ahead, wanted.len());
        if !there.eq_ignore_ascii_case(&wanted[..there.len()]) {
            return Ok(false);
        }
        match there.len() == wanted.len() {
            true => Ok(true),
            false if self.is_end => Ok(false),
            false => Err(Short),
        }
    }

    /// How many bytes of a sort follow, up to a bound.
    pub(crate) fn count(
        &self,
        ahead: usize,
        max: usize,
        is_of: impl Fn(u8) -> bool,
    ) -> Result<usize, Short> {
        let mut count = 0;
        while count < max && self.at(ahead + count)?.is_some_and(&is_of) {
            count += 1;
        }
        Ok(count)
    }

    /// Bytes that were seen before, as a slice.
    pub(crate) fn slice(&self, ahead: usize, len: usize) -> &'a [u8] {
        let start = (self.place + ahead).min(self.bytes.len());
        &self.bytes[start..(start + len).min(self.bytes.len())]
    }
}
