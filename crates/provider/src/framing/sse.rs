//! Server-sent events, cut out of a byte stream.
//!
//! Linear in the bytes it is given, and bounded: one event may hold [`SSE_EVENT_BYTES_MAX`] bytes.
//! It knows nothing of HTTP and nothing of what the events mean.

use provost_core::limits::SSE_EVENT_BYTES_MAX;

/// Bytes of comments that may stand between two events. Servers send a line every few seconds while a model thinks; more is
/// a server that will never answer.
const COMMENT_BYTES_MAX: usize = 1024 * 1024;

/// One event, borrowed from the parser until the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// Its `event:` field; empty if it has none.
    pub event: &'a [u8],
    /// Its `data:` lines, joined by line feeds. Not checked to be UTF-8: whoever decodes it does that.
    pub data: &'a [u8],
}

/// Why the bytes cannot be cut into events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// An event that does not end.
    #[error("the provider sent an event of more than {SSE_EVENT_BYTES_MAX} bytes")]
    TooLarge,
    /// Signs of life, and nothing else.
    #[error("the provider sent {COMMENT_BYTES_MAX} bytes of comments and no event")]
    OnlyComments,
}

/// Cuts chunks of bytes into events, wherever the chunks break.
#[derive(Debug)]
pub struct SseParser {
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    event: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The last chunk ended in a carriage return; a line feed that follows belongs to it.
    after_cr: bool,
    at_start: bool,
    /// Bytes of comments since the last event.
    comments: usize,
    bytes_max: usize,
}

impl Default for SseParser {
    fn default() -> Self {
        Self::with_limit(SSE_EVENT_BYTES_MAX)
    }
}

impl SseParser {
    /// A parser that refuses events above this size.
    pub fn with_limit(bytes_max: usize) -> Self {
        Self {
            line: Vec::new(),
            event: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_cr: false,
            at_start: true,
            comments: 0,
            bytes_max,
        }
    }

    /// Takes a chunk in and hands each event that ends in it to `sink`.
    pub fn push<E: From<SseError>>(
        &mut self,
        mut chunk: &[u8],
        mut sink: impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.after_cr && !chunk.is_empty() {
            self.after_cr = false;
            chunk = chunk.strip_prefix(b"\n").unwrap_or(chunk);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', chunk) {
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
        mut sink: impl FnMut(SseEvent<'_>) -> Result<(), E>,
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
        sink: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.at_start {
            self.at_start = false;
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(sink);
        }
        let (name, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                self.check_size(value.len())?;
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.check_size(value.len())?;
                self.event.clear();
                self.event.extend_from_slice(value);
            }
            // Comments keep a connection alive; `id` and `retry` are for browsers.
            _ => {
                self.comments += line.len();
                if self.comments > COMMENT_BYTES_MAX {
                    return Err(SseError::OnlyComments.into());
                }
            }
        }
        Ok(())
    }

    fn dispatch<E>(
        &mut self,
        sink: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let result = if self.has_data {
            self.comments = 0;
            sink(SseEvent { event: &self.event, data: &self.data })
        } else {
            Ok(())
        };
        self.event.clear();
        self.data.clear();
        self.has_data = false;
        result
    }

    fn check_size<E: From<SseError>>(&self, more: usize) -> Result<(), E> {
        if self.line.len() + self.event.len() + self.data.len() + more > self.bytes_max {
            return Err(SseError::TooLarge.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
