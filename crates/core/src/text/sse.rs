//! Parser of server-sent events, used for model vendors and for the Provost API.
//!
//! Runs in linear time and is bounded by [`SseLimits`]. It depends neither on HTTP nor on the meaning of the events.

use std::time::Duration;

use crate::usage::limits::SSE_EVENT_BYTES_MAX;

/// One event. It borrows from the parser, and its fields are not checked to be UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseFrame<'a> {
    /// The `id` field.
    pub id: Option<&'a [u8]>,
    /// The `event` field. Empty if the event has none.
    pub event: &'a [u8],
    /// The `data` lines, joined by line feeds. `None` if the event only has an id.
    pub data: Option<&'a [u8]>,
}

/// Memory limits of a parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseLimits {
    /// Maximum number of bytes of one event.
    pub event_bytes: usize,
    /// Maximum number of bytes of comments between two events.
    pub comment_bytes: usize,
}

impl Default for SseLimits {
    fn default() -> Self {
        Self { event_bytes: SSE_EVENT_BYTES_MAX, comment_bytes: usize::MAX }
    }
}

/// Error of a stream that exceeds the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// An event is larger than the limit.
    #[error("an event of the stream is too large")]
    TooLarge,
    /// The server sent only keep-alive comments, beyond the limit.
    #[error("the stream holds too many comments and no event")]
    TooManyComments,
}

/// Splits chunks of bytes into events, independent of the chunk boundaries.
#[derive(Debug)]
pub struct SseParser {
    /// Start of an incomplete line.
    line: Vec<u8>,
    id: Option<Vec<u8>>,
    event: Vec<u8>,
    data: Option<Vec<u8>>,
    /// The last chunk ended with a carriage return. A line feed at the start of the next chunk belongs to it.
    after_cr: bool,
    at_start: bool,
    /// Number of bytes of comments since the last event.
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
    /// Creates a parser with the given limits.
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

    /// Returns the reconnection delay that the server requested last. `None` if it requested none.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Parses a chunk and passes each event that ends in it to `sink`.
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
                self.process_line(head, &mut sink)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(head);
                let result = self.process_line(&line, &mut sink);
                line.clear();
                self.line = line;
                result?;
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

    /// Ends the stream. An event without the final blank line is still passed to `sink`.
    ///
    /// An event whose last line is incomplete is dropped, except `data: [DONE]`, which marks the end of a stream.
    pub fn finish<E: From<SseError>>(
        &mut self,
        mut sink: impl FnMut(SseFrame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.line == b"data: [DONE]" || self.line == b"data:[DONE]" {
            let line = std::mem::take(&mut self.line);
            self.process_line(&line, &mut sink)?;
        } else if !self.line.is_empty() {
            return Ok(());
        }
        self.dispatch(&mut sink)
    }

    /// Processes a line: a field of the current event, or the end of the event. Fails if a limit is exceeded.
    fn process_line<E: From<SseError>>(
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
            // A keep-alive comment or an unknown field.
            _ => {
                self.comments = self.comments.saturating_add(line.len());
                if self.comments > self.limits.comment_bytes {
                    return Err(SseError::TooManyComments.into());
                }
            }
        }
        Ok(())
    }

    /// Passes the current event to `sink` and starts the next one. An event without id and data is dropped.
    fn dispatch<E>(
        &mut self,
        sink: &mut impl FnMut(SseFrame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (id, data) = (self.id.take(), self.data.take());
        let event = std::mem::take(&mut self.event);
        // An event with only an id is not dispatched by the standard, but the id is a cursor that a client can resume
        // from.
        if id.is_none() && data.is_none() {
            return Ok(());
        }
        self.comments = 0;
        sink(SseFrame { id: id.as_deref(), event: &event, data: data.as_deref() })
    }

    /// Fails if the buffered event would exceed the limit.
    fn check_size<E: From<SseError>>(&self, additional: usize) -> Result<(), E> {
        let length = |field: &Option<Vec<u8>>| field.as_ref().map_or(0, Vec::len);
        let buffered = self.line.len() + self.event.len() + length(&self.id) + length(&self.data);
        if buffered + additional > self.limits.event_bytes {
            return Err(SseError::TooLarge.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
