//! Collects output of any length in constant memory: its beginning and end for the model, the complete output as an
//! artifact.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use provost_core::usage::limits::TOOL_OUTPUT_BYTES_MAX;
use provost_redact::{Redact, RedactChunks};

use super::{ArtifactStore, ArtifactWriter};
use crate::ToolOutput;

/// Bytes reserved for the note between beginning and end.
const MARKER_BYTES: usize = 1024;
/// Bytes of the beginning of a long output.
const HEAD_BYTES: usize = TOOL_OUTPUT_BYTES_MAX * 3 / 4 - MARKER_BYTES;
/// Bytes of the end of a long output.
const TAIL_BYTES: usize = TOOL_OUTPUT_BYTES_MAX / 4 - MARKER_BYTES;

/// Collects output in chunks. It removes secrets, stores a long output as an artifact, and cuts the text for the model.
pub struct OutputCollector {
    name: String,
    store: Option<Arc<dyn ArtifactStore>>,
    redact: Option<Box<dyn RedactChunks>>,
    /// The complete output while it is short, later its beginning.
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bytes: u64,
    writer: Option<Box<dyn ArtifactWriter>>,
    problem: Option<io::Error>,
}

impl OutputCollector {
    /// Creates a collector. A long output is stored as the artifact `name`.
    pub fn new(
        name: impl Into<String>,
        store: Option<Arc<dyn ArtifactStore>>,
        redact: Option<&dyn Redact>,
    ) -> Self {
        Self {
            name: name.into(),
            store,
            redact: redact.map(Redact::stream),
            head: Vec::new(),
            tail: VecDeque::new(),
            bytes: 0,
            writer: None,
            problem: None,
        }
    }

    /// Appends bytes of the output. An error of the store is kept for [`finish`](Self::finish).
    pub async fn push(&mut self, chunk: &[u8]) {
        match &mut self.redact {
            None => self.append(chunk).await,
            Some(redact) => {
                let clean = redact.push(chunk);
                self.append(&clean).await;
            }
        }
    }

    /// Returns the output for the model: the complete text, or its beginning and end with a note about the artifact or
    /// the error of the store. Invalid UTF-8 is replaced.
    pub async fn finish(mut self) -> ToolOutput {
        if let Some(redact) = self.redact.take() {
            let rest = redact.finish();
            self.append(&rest).await;
        }
        if self.bytes <= TOOL_OUTPUT_BYTES_MAX as u64 {
            return ToolOutput::text(String::from_utf8_lossy(&self.head));
        }
        let note = match self.writer.take() {
            Some(writer) => match writer.finish().await {
                Ok(artifact) => Some(artifact.note()),
                Err(error) => {
                    self.problem = Some(error);
                    None
                }
            },
            None => None,
        };
        let note = match (note, self.problem) {
            (Some(note), _) => note,
            (None, Some(error)) => format!("[the full output could not be stored: {error}]"),
            (None, None) => "[the full output was not stored]".to_owned(),
        };
        let tail = Vec::from(self.tail);
        let dropped = self.bytes - (self.head.len() + tail.len()) as u64;
        ToolOutput::text(format!(
            "{}\n[… {dropped} of {} bytes cut …]\n{note}\n{}",
            String::from_utf8_lossy(without_partial_end(&self.head)),
            self.bytes,
            String::from_utf8_lossy(without_partial_start(&tail)),
        ))
    }

    /// Appends redacted bytes to the head, the tail and the artifact.
    async fn append(&mut self, chunk: &[u8]) {
        let was_short = self.bytes <= TOOL_OUTPUT_BYTES_MAX as u64;
        self.bytes += chunk.len() as u64;
        if self.bytes <= TOOL_OUTPUT_BYTES_MAX as u64 {
            self.head.extend_from_slice(chunk);
            return;
        }
        if was_short {
            self.open_artifact().await;
            let short = self.head.clone();
            self.write_artifact(short).await;
            let beyond = self.head.split_off(HEAD_BYTES.min(self.head.len()));
            self.append_tail(&beyond);
        }
        self.write_artifact(chunk.to_vec()).await;
        // The first chunk may already exceed the limit.
        let missing = HEAD_BYTES.saturating_sub(self.head.len());
        let (begins, rest) = chunk.split_at(missing.min(chunk.len()));
        self.head.extend_from_slice(begins);
        self.append_tail(rest);
    }

    /// Appends bytes to the tail, and removes its oldest bytes beyond the limit.
    fn append_tail(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let surplus = (self.tail.len() + bytes.len()).saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus);
        self.tail.extend(bytes);
    }

    /// Opens the artifact, if there is a store. Keeps an error.
    async fn open_artifact(&mut self) {
        let Some(store) = &self.store else { return };
        match store.open(&self.name).await {
            Ok(writer) => self.writer = Some(writer),
            Err(error) => self.problem = Some(error),
        }
    }

    /// Writes to the artifact, if it is open. Keeps an error and discards the artifact.
    async fn write_artifact(&mut self, chunk: Vec<u8>) {
        let Some(writer) = &mut self.writer else { return };
        if let Err(error) = writer.write(chunk).await {
            self.problem = Some(error);
            self.writer = None;
        }
    }
}

/// Returns the bytes without an incomplete character at the end.
fn without_partial_end(bytes: &[u8]) -> &[u8] {
    let letter = bytes.iter().rposition(|byte| !is_continuation(*byte));
    match letter {
        // An incomplete character has at most three bytes.
        Some(start) if bytes.len() - start <= 3 && str::from_utf8(&bytes[start..]).is_err() => {
            &bytes[..start]
        }
        _ => bytes,
    }
}

/// Returns the bytes without an incomplete character at the start.
fn without_partial_start(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|byte| is_continuation(**byte)).count();
    &bytes[rest..]
}

/// Returns true if the byte continues a UTF-8 character.
fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}
