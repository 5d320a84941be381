//! Output of any length in constant memory: its beginning and its end are kept for the model, the whole goes to an artifact.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use provost_core::usage::limits::TOOL_OUTPUT_BYTES_MAX;
use provost_redact::{Redact, RedactChunks};

use super::{Spill, SpillWriter};
use crate::ToolOutput;

/// Bytes for the words between beginning and end.
const MARKER_BYTES: usize = 1024;
/// Bytes of the beginning that the model sees of what is too long.
const HEAD_BYTES: usize = TOOL_OUTPUT_BYTES_MAX * 3 / 4 - MARKER_BYTES;
/// Bytes of the end.
const TAIL_BYTES: usize = TOOL_OUTPUT_BYTES_MAX / 4 - MARKER_BYTES;

/// Takes output in chunks: secrets go out, the whole goes to an artifact if it is long, and what is left fits a model.
pub struct OutputCollector {
    name: String,
    spill: Option<Arc<dyn Spill>>,
    redact: Option<Box<dyn RedactChunks>>,
    /// Everything while it is short; later the beginning.
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bytes: u64,
    writer: Option<Box<dyn SpillWriter>>,
    problem: Option<io::Error>,
}

impl OutputCollector {
    /// Collects one output; a long one is kept under `name`.
    pub fn new(
        name: impl Into<String>,
        spill: Option<Arc<dyn Spill>>,
        redact: Option<&dyn Redact>,
    ) -> Self {
        Self {
            name: name.into(),
            spill,
            redact: redact.map(Redact::stream),
            head: Vec::new(),
            tail: VecDeque::new(),
            bytes: 0,
            writer: None,
            problem: None,
        }
    }

    /// Takes the next bytes.
    pub async fn push(&mut self, chunk: &[u8]) {
        match &mut self.redact {
            None => self.take(chunk).await,
            Some(redact) => {
                let clean = redact.push(chunk);
                self.take(&clean).await;
            }
        }
    }

    /// What the model sees: all of it, or its beginning and end with a word about the rest. Bytes that are no text are
    /// shown as such.
    pub async fn finish(mut self) -> ToolOutput {
        if let Some(redact) = self.redact.take() {
            let rest = redact.finish();
            self.take(&rest).await;
        }
        if self.bytes <= TOOL_OUTPUT_BYTES_MAX as u64 {
            return ToolOutput::text(String::from_utf8_lossy(&self.head));
        }
        let kept = match self.writer.take() {
            Some(writer) => match writer.finish().await {
                Ok(artifact) => Some(artifact.note()),
                Err(error) => {
                    self.problem = Some(error);
                    None
                }
            },
            None => None,
        };
        let kept = match (kept, self.problem) {
            (Some(note), _) => note,
            (None, Some(error)) => format!("[the whole output could not be kept: {error}]"),
            (None, None) => "[the whole output was not kept]".to_owned(),
        };
        let tail = Vec::from(self.tail);
        let dropped = self.bytes - (self.head.len() + tail.len()) as u64;
        ToolOutput::text(format!(
            "{}\n[… {dropped} of {} bytes cut …]\n{kept}\n{}",
            String::from_utf8_lossy(whole_chars(&self.head)),
            self.bytes,
            String::from_utf8_lossy(from_char(&tail)),
        ))
    }

    async fn take(&mut self, chunk: &[u8]) {
        let was_short = self.bytes <= TOOL_OUTPUT_BYTES_MAX as u64;
        self.bytes += chunk.len() as u64;
        if self.bytes <= TOOL_OUTPUT_BYTES_MAX as u64 {
            self.head.extend_from_slice(chunk);
            return;
        }
        if was_short {
            self.open().await;
            let short = self.head.clone();
            self.write(short).await;
            let beyond = self.head.split_off(HEAD_BYTES.min(self.head.len()));
            self.end_with(&beyond);
        }
        self.write(chunk.to_vec()).await;
        // One huge chunk may be all there is.
        let missing = HEAD_BYTES.saturating_sub(self.head.len());
        let (begins, rest) = chunk.split_at(missing.min(chunk.len()));
        self.head.extend_from_slice(begins);
        self.end_with(rest);
    }

    fn end_with(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let surplus = (self.tail.len() + bytes.len()).saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus);
        self.tail.extend(bytes);
    }

    async fn open(&mut self) {
        let Some(spill) = &self.spill else { return };
        match spill.open(&self.name).await {
            Ok(writer) => self.writer = Some(writer),
            Err(error) => self.problem = Some(error),
        }
    }

    async fn write(&mut self, chunk: Vec<u8>) {
        let Some(writer) = &mut self.writer else { return };
        if let Err(error) = writer.write(chunk).await {
            self.problem = Some(error);
            self.writer = None;
        }
    }
}

/// Without a letter that is cut at the end.
fn whole_chars(bytes: &[u8]) -> &[u8] {
    let letter = bytes.iter().rposition(|byte| !is_continuation(*byte));
    match letter {
        // At most three bytes belong to a letter that is not whole.
        Some(start) if bytes.len() - start <= 3 && str::from_utf8(&bytes[start..]).is_err() => {
            &bytes[..start]
        }
        _ => bytes,
    }
}

/// Without the rest of a letter that is cut at the start.
fn from_char(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|byte| is_continuation(**byte)).count();
    &bytes[rest..]
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}
