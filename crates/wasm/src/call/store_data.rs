//! What a module in one call has: its streams, its bounds, and what its manifest gives it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use provost_core::Env;
use wasmtime::ResourceLimiter;

use crate::engine::Pool;
use crate::host::Host;
use crate::limits;
use crate::wasi::component::resource::Resources;

/// One call's side of the machine. It is gone when the call is.
pub(crate) struct Guest {
    input: Bytes,
    output: Vec<u8>,
    words: Vec<u8>,
    written: usize,
    pub(crate) given: Arc<Given>,
    pub(crate) meter: Meter,
    pub(crate) host: Host,
    pub(crate) env: Env,
    pub(crate) began: Instant,
    pub(crate) deadline: Instant,
    pub(crate) resources: Resources,
}

/// What a module is given like a program.
#[derive(Debug, Default)]
pub(crate) struct Given {
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
}

/// Which of its outputs a module writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Answer,
    Words,
}

/// Why a module was stopped from here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Halt {
    #[error("it ended with code {0}")]
    Exit(i32),
    #[error("it wrote more than {} bytes", limits::OUTPUT_BYTES_MAX)]
    Flooded,
    #[error("its time is over")]
    Late,
    #[error("{0}")]
    Misuse(&'static str),
}

impl Guest {
    pub(crate) fn new(input: Bytes, given: Arc<Given>, meter: Meter, host: Host, env: Env) -> Self {
        let (began, deadline) = (Instant::now(), host.deadline());
        Self {
            input,
            output: Vec::new(),
            words: Vec::new(),
            written: 0,
            given,
            meter,
            host,
            env,
            began,
            deadline,
            resources: Resources::default(),
        }
    }

    /// The next bytes of its input, at most so many; none at its end.
    pub(crate) fn read(&mut self, bytes_max: usize) -> Bytes {
        let size = self.input.len().min(bytes_max);
        self.input.split_to(size)
    }

    /// Takes what it writes.
    pub(crate) fn write(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), Halt> {
        self.written = self.written.saturating_add(bytes.len());
        if self.written > limits::OUTPUT_BYTES_MAX {
            return Err(Halt::Flooded);
        }
        match stream {
            Stream::Answer => self.output.extend_from_slice(bytes),
            Stream::Words => {
                let room = limits::WORDS_BYTES_MAX.saturating_sub(self.words.len());
                self.words.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
        }
        Ok(())
    }

    /// What it has written: its answer, and what it said beside it.
    pub(crate) fn into_written(self) -> (Vec<u8>, Vec<u8>) {
        (self.output, self.words)
    }
}

/// Counts memory and tables, and gives them back at the end.
pub(crate) struct Meter {
    pool: Arc<Pool>,
    bytes: u64,
    bytes_max: u64,
    elements: usize,
    /// What was refused, if anything was.
    pub(crate) refused: Option<&'static str>,
}

impl Meter {
    pub(crate) fn new(pool: Arc<Pool>, bytes_max: u64) -> Self {
        let bytes_max = bytes_max.min(limits::MEMORY_BYTES_MAX);
        Self { pool, bytes: 0, bytes_max, elements: 0, refused: None }
    }

    /// Bytes of all its memories.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.pool.give(self.bytes);
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current) as u64;
        let is_own = self.bytes.saturating_add(more) <= self.bytes_max;
        if !is_own {
            self.refused = Some("memory");
            return Ok(false);
        }
        if !self.pool.take(more) {
            self.refused = Some("memory of all calls together");
            return Ok(false);
        }
        self.bytes += more;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let elements = self.elements.saturating_add(desired.saturating_sub(current));
        if elements > limits::TABLE_ELEMENTS_MAX {
            self.refused = Some("table");
            return Ok(false);
        }
        self.elements = elements;
        Ok(true)
    }

    fn instances(&self) -> usize {
        limits::INSTANCES_MAX
    }

    fn tables(&self) -> usize {
        limits::TABLES_MAX
    }

    fn memories(&self) -> usize {
        limits::MEMORIES_MAX
    }
}
