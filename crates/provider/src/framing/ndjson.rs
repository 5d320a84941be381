//! One JSON document in each line.

use super::FrameError;
use crate::wire::SseEvent;

/// Cuts chunks into lines. Empty lines are nothing.
#[derive(Debug)]
pub(super) struct Lines {
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    bytes_max: usize,
}

impl Lines {
    pub(super) fn with_limit(bytes_max: usize) -> Self {
        Self { line: Vec::new(), bytes_max }
    }

    pub(super) fn push<E: From<FrameError>>(
        &mut self,
        mut chunk: &[u8],
        sink: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(end) = memchr::memchr(b'\n', chunk) {
            let (head, tail) = (&chunk[..end], &chunk[end + 1..]);
            chunk = tail;
            self.check(head.len())?;
            if self.line.is_empty() {
                give(head, sink)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(head);
                let given = give(&line, sink);
                line.clear();
                self.line = line;
                given?;
            }
        }
        self.check(chunk.len())?;
        self.line.extend_from_slice(chunk);
        Ok(())
    }

    /// The last line may lack its end. One that was cut in its middle is no document and is dropped, so that the answer is
    /// told to be incomplete and not to be wrong.
    pub(super) fn finish<E: From<FrameError>>(
        &mut self,
        sink: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = std::mem::take(&mut self.line);
        match serde_json::from_slice::<serde::de::IgnoredAny>(&line) {
            Ok(_) => give(&line, sink),
            Err(_) => Ok(()),
        }
    }

    fn check(&self, more: usize) -> Result<(), FrameError> {
        match self.line.len() + more > self.bytes_max {
            true => Err(FrameError::TooLarge),
            false => Ok(()),
        }
    }
}

fn give<E>(line: &[u8], sink: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>) -> Result<(), E> {
    let line = line.trim_ascii();
    match line.is_empty() {
        true => Ok(()),
        false => sink(SseEvent { event: b"", data: line }),
    }
}
