//! Server-sent events, cut out of a byte stream. One parser for vendors and for our own API.
//!
//! Linear in the bytes it is given, and bounded by [`SseLimits`]. It knows nothing of HTTP and nothing of what the events mean.

use std::time::Duration;

use crate::usage::limits::SSE_EVENT_BYTES_MAX;

/// One event, borrowed from the parser until the next one. Nothing of it is checked to be UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseFrame<'a> {
    /// Its `id:` field, if it has one.
    pub id: Option<&'a [u8]>,
    /// Its `event:` field; empty if it has none.
    pub event: &'a [u8],
    /// Its `data:` lines, joined by line feeds; `None` if it only has an id.
    pub data: Option<&'a [u8]>,
}

/// What a parser holds at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseLimits {
    /// Bytes of one event.
    pub event_bytes: usize,
    /// Bytes of comments between two events.
    pub comment_bytes: usize,
}

impl Default for SseLimits {
    fn default() -> Self {
        Self { event_bytes: SSE_EVENT_BYTES_MAX, comment_bytes: usize::MAX }
    }
}

/// Why the bytes cannot be cut into events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// An event that does not end.
    #[error("an event of the stream is too large")]
    TooLarge,
    /// Signs of life, and nothing else.
    #[error("the stream holds too many comments and no event")]
    OnlyComments,
}

/// Cuts chunks of bytes into events, wherever the chunks break.
#[derive(Debug)]
pub struct SseParser {
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    id: Option<Vec<u8>>,
    event: Vec<u8>,
    data: Option<Vec<u8>>,
    /// The last chunk ended in a carriage return; a line feed that follows belongs to it.
    after_cr: bool,
    at_start: bool,
    /// Bytes of comments since the last event.
    comments: usize,
    retry: Option<Duration>,
    limits: SseLimits,
}

impl Default for SseParser {
    fn default() -> Self {
        Self::with_limits(SseLimits::default())
    }
}

impl SseParser {
    /// A parser that refuses more than these limits.
    pub fn with_limits(limits: SseLimits) -> Self {
        Self {
            line: Vec::new(),
            id: None,
            event: Vec::new(),
            data: None,
            after_cr: false,
            at_start: true,
            comments: 0,
            retry: None,
            limits,
        }
    }

    /// How long the server asks the client to wait before it connects again.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Takes a chunk in and hands each event that ends in it to `sink`.
    pub fn push<E: From<SseError>>(
        &mut self,
        mut chunk: &[u8],
        mut sink: impl FnMut(SseFrame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.after_cr && !chunk.is_empty() {
            self.after_cr = false;
            chunk = chunk.strip_prefix(b"\n").unwrap_or(chunk);
        }
        while let Some(end) = chunk.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (head, tail) = (&chunk[..end], &chunk[end + 1..]);
            let is_cr = chunk[end] == b'\r';
            if self.line.is_empty() {
                self.take_line(head, &mut sink)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(head);
                let taken = self.take_line(&line, &mut sink);
                line.clear();
                self.line = line;
                taken?;
            }
            chunk = match tail.strip_prefix(b"\n") {
                Some(rest) if is_cr => rest,
                _ => tail,
            };
            self.after_cr = is_cr && tail.is_empty();
        }
        self.line.extend_from_slice(chunk);
        self.check_size(0)
    }

    /// The end of the bytes: an event whose lines are whole is given out even if the empty line after it is missing.
    ///
    /// A line that was cut in its middle is dropped, except the word that ends a stream.
    pub fn finish<E: From<SseError>>(
        &mut self,
        mut sink: impl FnMut(SseFrame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.line == b"data: [DONE]" || self.line == b"data:[DONE]" {
            let line = std::mem::take(&mut self.line);
            self.take_line(&line, &mut sink)?;
        } else if !self.line.is_empty() {
            return Ok(());
        }
        self.dispatch(&mut sink)
    }

    fn take_line<E: From<SseError>>(
        &mut self,
        mut line: &[u8],
        sink: &mut impl FnMut(SseFrame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.at_start {
            self.at_start = false;
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(sink);
        }
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                self.check_size(value.len())?;
                match &mut self.data {
                    Some(data) => {
                        data.push(b'\n');
                        data.extend_from_slice(value);
                    }
                    None => self.data = Some(value.to_vec()),
                }
            }
            b"event" => {
                self.check_size(value.len())?;
                self.event.clear();
                self.event.extend_from_slice(value);
            }
            b"id" if !value.contains(&0) => {
                self.check_size(value.len())?;
                self.id = Some(value.to_vec());
            }
            b"retry" => {
                let millis = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                self.retry = millis.map(Duration::from_millis).or(self.retry);
            }
            // A comment, which keeps the connection alive, or something of a later version.
            _ => {
                self.comments = self.comments.saturating_add(line.len());
                if self.comments > self.limits.comment_bytes {
                    return Err(SseError::OnlyComments.into());
                }
            }
        }
        Ok(())
    }

    fn dispatch<E>(
        &mut self,
        sink: &mut impl FnMut(SseFrame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (id, data) = (self.id.take(), self.data.take());
        let event = std::mem::take(&mut self.event);
        // An id alone is no event, but a position that a client can come back to.
        if id.is_none() && data.is_none() {
            return Ok(());
        }
        self.comments = 0;
        sink(SseFrame { id: id.as_deref(), event: &event, data: data.as_deref() })
    }

    fn check_size<E: From<SseError>>(&self, more: usize) -> Result<(), E> {
        let length = |field: &Option<Vec<u8>>| field.as_ref().map_or(0, Vec::len);
        let held = self.line.len() + self.event.len() + length(&self.id) + length(&self.data);
        if held + more > self.limits.event_bytes {
            return Err(SseError::TooLarge.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
