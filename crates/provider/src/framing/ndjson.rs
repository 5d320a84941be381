//! One JSON document per line.

use super::FrameError;
use crate::wire::SseEvent;

/// Parser of lines of JSON. Empty lines are skipped.
#[derive(Debug)]
pub(super) struct NdjsonParser {
    /// Beginning of an incomplete line.
    line: Vec<u8>,
    bytes_max: usize,
}

impl NdjsonParser {
    pub(super) fn with_limit(bytes_max: usize) -> Self {
        Self { line: Vec::new(), bytes_max }
    }

    /// Parses a chunk and passes each complete line to `sink`. Keeps an incomplete line for the next chunk.
    pub(super) fn push<E: From<FrameError>>(
        &mut self,
        mut chunk: &[u8],
        sink: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(end) = memchr::memchr(b'\n', chunk) {
            let (head, tail) = (&chunk[..end], &chunk[end + 1..]);
            chunk = tail;
            self.check_length(head.len())?;
            if self.line.is_empty() {
                send_line(head, sink)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(head);
                let sent = send_line(&line, sink);
                line.clear();
                self.line = line;
                sent?;
            }
        }
        self.check_length(chunk.len())?;
        self.line.extend_from_slice(chunk);
        Ok(())
    }

    /// Passes the last line to `sink` if it is complete JSON without a line break. A truncated line is dropped, so that
    /// the decoder reports an incomplete response and not malformed JSON.
    pub(super) fn finish<E: From<FrameError>>(
        &mut self,
        sink: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = std::mem::take(&mut self.line);
        match serde_json::from_slice::<serde::de::IgnoredAny>(&line) {
            Ok(_) => send_line(&line, sink),
            Err(_) => Ok(()),
        }
    }

    /// Returns an error if the line would exceed the limit with `more` bytes.
    fn check_length(&self, more: usize) -> Result<(), FrameError> {
        match self.line.len() + more > self.bytes_max {
            true => Err(FrameError::TooLarge),
            false => Ok(()),
        }
    }
}

/// Passes a line to the sink, unless it is blank.
fn send_line<E>(
    line: &[u8],
    sink: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let line = line.trim_ascii();
    match line.is_empty() {
        true => Ok(()),
        false => sink(SseEvent { event: b"", data: line }),
    }
}
