//! Redaction of text that comes in pieces.

use crate::peek::BACK_MAX;
use crate::redactor::Redactor;
use crate::scan::{Hidden, Part, scan};

/// Redacts text that comes in pieces; made by [`Redactor::stream`].
///
/// What comes out is what [`Redactor::redact`] makes of the whole. A few bytes are kept back until they can no longer be part
/// of a secret, and never more than some kilobytes.
#[derive(Debug)]
pub struct RedactStream {
    redactor: Redactor,
    /// The text from `base` on: what was not given out, and a little more before the place that comes next.
    text: Vec<u8>,
    base: usize,
    /// How far matches were looked for.
    at: usize,
    hidden: Hidden,
    /// The end of what the latest mark stands for.
    marked: Option<usize>,
}

impl RedactStream {
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self { redactor, text: Vec::new(), base: 0, at: 0, hidden: Hidden::default(), marked: None }
    }

    /// Takes the next piece; returns what is safe to show now.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        self.hidden.extend(chunk, self.base + self.text.len());
        self.text.extend_from_slice(chunk);
        self.at = self.scan(false);
        // Forms that were learned are found by bytes in their middle and may begin this much before.
        let limit = self.at.saturating_sub(BACK_MAX);
        let out = self.take(limit, chunk.len());
        self.base += limit;
        self.at -= limit;
        out
    }

    /// Takes so much off the beginning of the text, without what is hidden. So much more is expected to come.
    fn take(&mut self, limit: usize, expected: usize) -> Vec<u8> {
        if self.hidden.spans.is_empty() {
            // Most text hides nothing: it goes as it is, and only the few bytes behind it are copied.
            let mut rest = Vec::with_capacity(self.text.len() - limit + expected);
            rest.extend_from_slice(&self.text[limit..]);
            self.text.truncate(limit);
            return std::mem::replace(&mut self.text, rest);
        }
        let mut out = Vec::with_capacity(limit);
        self.give(limit, &mut out);
        self.text.drain(..limit);
        out
    }

    /// The rest, when nothing comes any more.
    pub fn finish(mut self) -> Vec<u8> {
        self.scan(true);
        let mut out = Vec::with_capacity(self.text.len());
        self.give(self.text.len(), &mut out);
        out
    }

    /// Bytes that are kept at the moment.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.text.len() + self.hidden.spans.len()
    }

    fn scan(&mut self, is_end: bool) -> usize {
        let part = Part { bytes: &self.text, base: self.base, is_end };
        scan(&self.redactor.index(), part, self.at, &mut self.hidden)
    }

    fn give(&mut self, limit: usize, out: &mut Vec<u8>) {
        give(&self.text[..limit], self.base, &mut self.hidden, &mut self.marked, out);
    }
}

/// Writes text without what is hidden. What reaches beyond the text stays hidden.
pub(crate) fn give(
    text: &[u8],
    base: usize,
    hidden: &mut Hidden,
    marked: &mut Option<usize>,
    out: &mut Vec<u8>,
) {
    let limit = base + text.len();
    let mut place = base;
    hidden.spans.sort_unstable();
    hidden.spans.retain(|&(start, end)| {
        if start >= limit || start >= end {
            return start < end;
        }
        if start > place {
            out.extend_from_slice(&text[place - base..start - base]);
            place = start;
        }
        if marked.is_none_or(|marked| marked < start) {
            out.extend_from_slice(crate::MARK.as_bytes());
        }
        *marked = (*marked).max(Some(end));
        place = place.max(end.min(limit));
        end > limit
    });
    out.extend_from_slice(&text[place - base..]);
}
