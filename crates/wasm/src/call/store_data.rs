//! State of a module during one call: its streams, limits and host functions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use provost_core::Env;
use wasmtime::ResourceLimiter;

use crate::engine::MemoryBudget;
use crate::host::HostState;
use crate::limits;
use crate::wasi::component::resource::Resources;

/// Data of the store of one call. It is dropped at the end of the call.
pub(crate) struct StoreData {
    input: Bytes,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    written: usize,
    pub(crate) wasi_inputs: Arc<WasiInputs>,
    pub(crate) limiter: StoreLimiter,
    pub(crate) host: HostState,
    pub(crate) env: Env,
    pub(crate) started: Instant,
    pub(crate) deadline: Instant,
    pub(crate) resources: Resources,
}

/// Arguments and environment variables of a module.
#[derive(Debug, Default)]
pub(crate) struct WasiInputs {
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
}

/// Output stream of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StdStream {
    Stdout,
    Stderr,
}

/// Why the host stops a module.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HaltReason {
    #[error("exited with code {0}")]
    Exit(i32),
    #[error("wrote more than {} bytes", limits::OUTPUT_BYTES_MAX)]
    OutputLimit,
    #[error("time limit reached")]
    Timeout,
    #[error("{0}")]
    Misuse(&'static str),
}

impl StoreData {
    pub(crate) fn new(
        input: Bytes,
        wasi_inputs: Arc<WasiInputs>,
        limiter: StoreLimiter,
        host: HostState,
        env: Env,
    ) -> Self {
        let (started, deadline) = (Instant::now(), host.deadline());
        Self {
            input,
            stdout: Vec::new(),
            stderr: Vec::new(),
            written: 0,
            wasi_inputs,
            limiter,
            host,
            env,
            started,
            deadline,
            resources: Resources::default(),
        }
    }

    /// Removes up to `bytes_max` bytes from the input and returns them. Empty at its end.
    pub(crate) fn read(&mut self, bytes_max: usize) -> Bytes {
        let size = self.input.len().min(bytes_max);
        self.input.split_to(size)
    }

    /// Appends output. Standard error is cut silently. Returns an error that stops the module if the output limit is
    /// exceeded.
    pub(crate) fn write(&mut self, stream: StdStream, bytes: &[u8]) -> Result<(), HaltReason> {
        self.written = self.written.saturating_add(bytes.len());
        if self.written > limits::OUTPUT_BYTES_MAX {
            return Err(HaltReason::OutputLimit);
        }
        match stream {
            StdStream::Stdout => self.stdout.extend_from_slice(bytes),
            StdStream::Stderr => {
                let slots = limits::STDERR_BYTES_MAX.saturating_sub(self.stderr.len());
                self.stderr.extend_from_slice(&bytes[..bytes.len().min(slots)]);
            }
        }
        Ok(())
    }

    /// Returns standard output and standard error.
    pub(crate) fn into_outputs(self) -> (Vec<u8>, Vec<u8>) {
        (self.stdout, self.stderr)
    }
}

/// Limits the memory and tables of a call. Dropping it releases its memory in the budget.
pub(crate) struct StoreLimiter {
    budget: Arc<MemoryBudget>,
    bytes: u64,
    bytes_max: u64,
    elements: usize,
    /// Resource whose limit was reached, if any.
    pub(crate) refused: Option<&'static str>,
}

impl StoreLimiter {
    pub(crate) fn new(budget: Arc<MemoryBudget>, bytes_max: u64) -> Self {
        let bytes_max = bytes_max.min(limits::MEMORY_BYTES_MAX);
        Self { budget, bytes: 0, bytes_max, elements: 0, refused: None }
    }

    /// Returns the total size of the memories, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for StoreLimiter {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

impl ResourceLimiter for StoreLimiter {
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
        if !self.budget.reserve(more) {
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
