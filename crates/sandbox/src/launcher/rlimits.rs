//! Resource limits that the kernel enforces per process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::profile::ResourceLimits;

/// Resource limits of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rlimits {
    /// Maximum file size, in bytes.
    pub(crate) file_bytes: u64,
    /// Maximum number of open files.
    pub(crate) open_files: u64,
    /// Maximum processor time, in seconds.
    pub(crate) cpu_seconds: u64,
    /// Maximum memory, in bytes. `None` if a control group enforces the limit.
    pub(crate) memory_bytes: Option<u64>,
}

impl Rlimits {
    /// Returns the limits of a command.
    pub(crate) fn of(limits: &ResourceLimits, is_memory_counted: bool) -> Self {
        Self {
            file_bytes: limits.file_bytes,
            open_files: limits.open_files,
            cpu_seconds: limits.cpu_time.as_secs().max(1),
            memory_bytes: (!is_memory_counted).then_some(limits.memory_bytes),
        }
    }

    /// Sets the limits for this process and its descendants. A stricter existing limit stays in force.
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
