//! Bounds that the kernel keeps for each process by itself.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::profile::Limits;

/// What one process may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bounds {
    /// Bytes of a file.
    pub(crate) file_bytes: u64,
    /// Open files.
    pub(crate) open_files: u64,
    /// Seconds on a processor.
    pub(crate) cpu_seconds: u64,
    /// Bytes of memory, where no control group counts them.
    pub(crate) memory_bytes: Option<u64>,
}

impl Bounds {
    /// Those of a job.
    pub(crate) fn of(limits: &Limits, is_memory_counted: bool) -> Self {
        Self {
            file_bytes: limits.file_bytes,
            open_files: limits.open_files,
            cpu_seconds: limits.cpu_time.as_secs().max(1),
            memory_bytes: (!is_memory_counted).then_some(limits.memory_bytes),
        }
    }

    /// Sets them for this process and everything that it starts. What is already bounded more strictly stays so.
    pub(super) fn set(&self) -> io::Result<()> {
        let limits = [
            (Resource::Core, Some(0)),
            (Resource::Fsize, Some(self.file_bytes)),
            (Resource::Nofile, Some(self.open_files)),
            (Resource::Cpu, Some(self.cpu_seconds)),
            (Resource::As, self.memory_bytes),
        ];
        for (resource, limit) in limits {
            let Some(limit) = limit else { continue };
            let limit = match getrlimit(resource).maximum {
                Some(maximum) => limit.min(maximum),
                None => limit,
            };
            setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })?;
        }
        Ok(())
    }
}
