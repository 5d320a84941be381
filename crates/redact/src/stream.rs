//! Redaction of text that arrives in chunks.

use crate::lookahead::BACK_MAX;
use crate::redactor::Redactor;
use crate::scan::{Chunk, RedactedSpans, scan};

/// Redacts text that arrives in chunks. Created by [`Redactor::stream`].
///
/// The output equals [`Redactor::redact`] of the complete text. A stream buffers bytes while they may be part of a
/// secret, at most a few kilobytes.
#[derive(Debug)]
pub struct RedactStream {
    redactor: Redactor,
    /// Text from `base` on: the bytes that were not returned yet, and the lookbehind of the next position.
    text: Vec<u8>,
    base: usize,
    /// Position up to which matches were searched.
    at: usize,
    redacted: RedactedSpans,
    /// End of the text that the latest placeholder replaces.
    placeholder_end: Option<usize>,
}

impl RedactStream {
    /// Creates a stream at the start of a text.
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            text: Vec::new(),
            base: 0,
            at: 0,
            redacted: RedactedSpans::default(),
            placeholder_end: None,
        }
    }

    /// Processes the next chunk. Returns the output that is final.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        self.redacted.extend(chunk, self.base + self.text.len());
        self.text.extend_from_slice(chunk);
        self.at = self.scan(false);
        // A secret is found by bytes in its middle and may begin this many bytes earlier.
        let limit = self.at.saturating_sub(BACK_MAX);
        let out = self.take(limit, chunk.len());
        self.base += limit;
        self.at -= limit;
        out
    }

    /// Removes the first `limit` bytes from the buffer and returns them redacted. `expected` is the number of bytes to
    /// reserve for the next chunk.
    fn take(&mut self, limit: usize, expected: usize) -> Vec<u8> {
        if self.redacted.spans.is_empty() {
            // Most text contains no secret: it is returned without copying, and only the few remaining bytes are
            // copied.
            let mut rest = Vec::with_capacity(self.text.len() - limit + expected);
            rest.extend_from_slice(&self.text[limit..]);
            self.text.truncate(limit);
            return std::mem::replace(&mut self.text, rest);
        }
        let mut out = Vec::with_capacity(limit);
        self.write_redacted(limit, &mut out);
        self.text.drain(..limit);
        out
    }

    /// Returns the remaining output at the end of the text.
    pub fn finish(mut self) -> Vec<u8> {
        self.scan(true);
        let mut out = Vec::with_capacity(self.text.len());
        self.write_redacted(self.text.len(), &mut out);
        out
    }

    /// Returns the number of buffered bytes and spans.
    #[cfg(test)]
    pub(crate) fn buffered_len(&self) -> usize {
        self.text.len() + self.redacted.spans.len()
    }

    /// Searches the buffered text and records its matches. Returns the first undecided position.
    fn scan(&mut self, is_end: bool) -> usize {
        let text = Chunk { bytes: &self.text, base: self.base, is_end };
        scan(&self.redactor.index(), text, self.at, &mut self.redacted)
    }

    /// Appends the first `limit` buffered bytes to `out`, redacted.
    fn write_redacted(&mut self, limit: usize, out: &mut Vec<u8>) {
        write_redacted(
            &self.text[..limit],
            self.base,
            &mut self.redacted,
            &mut self.placeholder_end,
            out,
        );
    }
}

/// Appends text to `out` with a placeholder for each redacted span, and removes these spans. Spans that extend beyond
/// the text are kept. Overlapping and adjacent spans share one placeholder, also across calls.
pub(crate) fn write_redacted(
    text: &[u8],
    base: usize,
    redacted: &mut RedactedSpans,
    placeholder_end: &mut Option<usize>,
    out: &mut Vec<u8>,
) {
    let limit = base + text.len();
    let mut position = base;
    redacted.spans.sort_unstable();
    redacted.spans.retain(|&(start, end)| {
        if start >= limit || start >= end {
            return start < end;
        }
        if start > position {
            out.extend_from_slice(&text[position - base..start - base]);
            position = start;
        }
        if placeholder_end.is_none_or(|placeholder_end| placeholder_end < start) {
            out.extend_from_slice(crate::PLACEHOLDER.as_bytes());
        }
        *placeholder_end = (*placeholder_end).max(Some(end));
        position = position.max(end.min(limit));
        end > limit
    });
    out.extend_from_slice(&text[position - base..]);
}
