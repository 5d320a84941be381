//! Isolation profiles: the resources and guarantees of a sandboxed program.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use provost_core::resource::IsolationMode;

use crate::backend::container::RootfsSource;
use crate::egress::{EgressPolicy, ProxyListener};
use crate::error::IsolationError;
use crate::limits;

/// Resources of a program and the guarantees that its sandbox must give. Independent of the backend.
#[derive(Debug, Clone)]
pub struct IsolationProfile {
    /// Isolation mode. `sandboxed` is not a mode: the operator configures which mode it means.
    pub mode: IsolationMode,
    /// Resource limits.
    pub limits: ResourceLimits,
    /// Files that the program sees besides those of the system.
    pub workspace: WorkspaceMount,
    /// Network access.
    pub network: NetworkAccess,
    /// Root file system, if the backend supports several. `None`: the default of the backend.
    pub source: Option<RootfsSource>,
    /// Guarantees that the backend must enforce. If it cannot, the program does not run.
    pub required: Vec<Guarantee>,
}

/// Resource limits of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Concurrent processes and threads.
    pub pids: u32,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Processor share, in percent of one processor.
    pub cpu_percent: u32,
    /// Processor time of each process.
    pub cpu_time: Duration,
    /// Maximum size of a file, in bytes.
    pub file_bytes: u64,
    /// Open files of each process.
    pub open_files: u64,
    /// Size of the private `/tmp`, in bytes.
    pub tmp_bytes: u64,
    /// Time limit from start to end.
    pub time: Duration,
    /// Output limit, in bytes.
    pub output_bytes: u64,
}

/// Files that a program sees besides those of the system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum WorkspaceMount {
    /// No workspace.
    #[default]
    None,
    /// A read-only directory.
    ReadOnly(PathBuf),
    /// A writable directory.
    ReadWrite(PathBuf),
}

/// Network access of a program.
#[derive(Debug, Clone, Default)]
pub enum NetworkAccess {
    /// No network.
    #[default]
    Off,
    /// Only hosts that the proxy permits.
    Allow(Arc<EgressPolicy>),
}

impl NetworkAccess {
    /// Opens the proxy socket in the directory of a job. Returns `None` for a profile without network access.
    pub(crate) fn open_proxy(&self, dir: &Path) -> Result<Option<ProxyListener>, IsolationError> {
        match self {
            Self::Off => Ok(None),
            Self::Allow(egress) => egress.open_proxy(&dir.join("egress")).map(Some),
        }
    }
}

/// A property that a backend can enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guarantee {
    /// Files outside of the workspace cannot be read or changed, except for reading those of the system.
    Files,
    /// Without network access, nothing is reachable over the network.
    Network,
    /// With an allow list, nothing is reachable except through the proxy.
    AllowList,
    /// The environment of this process is not visible.
    Environment,
    /// All processes of the program are gone at its end.
    Tree,
    /// Processes outside of the sandbox cannot be seen, signalled or inspected.
    Processes,
    /// Kernel interfaces that tools do not need are blocked.
    Kernel,
    /// The number of processes and threads is limited.
    Pids,
    /// The memory of all processes together is limited.
    Memory,
    /// The processor share is limited.
    Cpu,
    /// `/tmp` is private and its size is limited.
    Tmp,
}

impl Guarantee {
    /// All guarantees, in the order of reports.
    pub const ALL: [Self; 11] = [
        Self::Files,
        Self::Network,
        Self::AllowList,
        Self::Environment,
        Self::Tree,
        Self::Processes,
        Self::Kernel,
        Self::Pids,
        Self::Memory,
        Self::Cpu,
        Self::Tmp,
    ];

    /// Returns the name of the guarantee.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Network => "network",
            Self::AllowList => "allow-list",
            Self::Environment => "environment",
            Self::Tree => "process-tree",
            Self::Processes => "processes",
            Self::Kernel => "kernel",
            Self::Pids => "pids",
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Tmp => "tmp",
        }
    }
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            pids: limits::PIDS_DEFAULT,
            memory_bytes: limits::JOB_MEMORY_BYTES_DEFAULT,
            cpu_percent: limits::CPU_PERCENT_DEFAULT,
            cpu_time: limits::CPU_TIME_DEFAULT,
            file_bytes: limits::FILE_BYTES_DEFAULT,
            open_files: limits::OPEN_FILES_DEFAULT,
            tmp_bytes: limits::TMP_BYTES_DEFAULT,
            time: limits::TIME_DEFAULT,
            output_bytes: limits::OUTPUT_BYTES_DEFAULT,
        }
    }
}

impl ResourceLimits {
    /// Returns the lower of both limits for each resource, so that a call can only tighten the limits of the operator.
    #[must_use]
    pub fn stricter(&self, other: &Self) -> Self {
        Self {
            pids: self.pids.min(other.pids),
            memory_bytes: self.memory_bytes.min(other.memory_bytes),
            cpu_percent: self.cpu_percent.min(other.cpu_percent),
            cpu_time: self.cpu_time.min(other.cpu_time),
            file_bytes: self.file_bytes.min(other.file_bytes),
            open_files: self.open_files.min(other.open_files),
            tmp_bytes: self.tmp_bytes.min(other.tmp_bytes),
            time: self.time.min(other.time),
            output_bytes: self.output_bytes.min(other.output_bytes),
        }
    }
}

impl IsolationProfile {
    /// Creates a profile without files and without network access, with the default limits.
    pub fn new(mode: IsolationMode) -> Self {
        let required = match mode {
            IsolationMode::None => Vec::new(),
            _ => vec![
                Guarantee::Files,
                Guarantee::Network,
                Guarantee::Environment,
                Guarantee::Tree,
                Guarantee::Kernel,
                Guarantee::Pids,
            ],
        };
        Self {
            mode,
            limits: ResourceLimits::default(),
            workspace: WorkspaceMount::None,
            network: NetworkAccess::Off,
            source: None,
            required,
        }
    }

    /// Sets the workspace.
    #[must_use]
    pub fn workspace(mut self, workspace: WorkspaceMount) -> Self {
        self.workspace = workspace;
        self
    }

    /// Sets the network access.
    #[must_use]
    pub fn network(mut self, network: NetworkAccess) -> Self {
        self.network = network;
        self
    }

    /// Sets the root file system.
    #[must_use]
    pub fn source(mut self, source: RootfsSource) -> Self {
        self.source = Some(source);
        self
    }

    /// Sets the resource limits.
    #[must_use]
    pub fn limits(mut self, limits: ResourceLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns all guarantees that the backend must enforce, including those of the network access.
    pub fn all_required(&self) -> impl Iterator<Item = Guarantee> + '_ {
        let has_allow_list = matches!(self.network, NetworkAccess::Allow(_));
        self.required.iter().copied().chain(has_allow_list.then_some(Guarantee::AllowList))
    }
}

impl WorkspaceMount {
    /// Returns the directory, if there is one.
    pub fn dir(&self) -> Option<&Path> {
        match self {
            Self::None => None,
            Self::ReadOnly(dir) | Self::ReadWrite(dir) => Some(dir),
        }
    }
}
