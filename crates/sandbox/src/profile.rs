//! What a program may have.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use provost_core::resource::IsolationMode;

use crate::backend::container::Source;
use crate::egress::{Egress, Entrance};
use crate::error::IsolationError;
use crate::limits;

/// What a program may have, and how far it is kept apart. The same words for every backend.
#[derive(Debug, Clone)]
pub struct Profile {
    /// How it is kept apart. `sandboxed` is no mode of its own: the operator says what it stands for.
    pub mode: IsolationMode,
    /// How much it may use.
    pub limits: Limits,
    /// Which files it sees besides those of the system.
    pub workspace: Workspace,
    /// Whom it reaches.
    pub network: Network,
    /// What its root is made of, where the backend has roots to choose from; nothing means the backend's own.
    pub source: Option<Source>,
    /// What the backend must be able to hold. One that cannot is not used, and nothing else is either.
    pub insists: Vec<Hold>,
}

/// How much a program may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Processes and threads at the same time.
    pub pids: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Share of the processors, in percent of one.
    pub cpu_percent: u32,
    /// Time on a processor for each process.
    pub cpu_time: Duration,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Open files of each process.
    pub open_files: u64,
    /// Bytes of the private `/tmp`.
    pub tmp_bytes: u64,
    /// Time from start to end.
    pub time: Duration,
    /// Bytes of output.
    pub output_bytes: u64,
}

/// Which files a program sees besides those of the system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Workspace {
    /// None.
    #[default]
    None,
    /// Those of a directory, to read.
    ReadOnly(PathBuf),
    /// Those of a directory, to read and to change.
    ReadWrite(PathBuf),
}

/// Whom a program reaches.
#[derive(Debug, Clone, Default)]
pub enum Network {
    /// Nobody.
    #[default]
    Off,
    /// Those that a proxy lets through.
    Allow(Arc<Egress>),
}

impl Network {
    /// Opens the entrance to the proxy in the directory of a job, if the program may use the network.
    pub(crate) fn entrance(&self, dir: &Path) -> Result<Option<Entrance>, IsolationError> {
        match self {
            Self::Off => Ok(None),
            Self::Allow(egress) => egress.entrance(&dir.join("egress")).map(Some),
        }
    }
}

/// Something that a backend can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hold {
    /// Files outside of the workspace cannot be read or changed, but for those of the system.
    Files,
    /// Nothing is reached over the network while it is off.
    Network,
    /// With an allow list, nothing is reached around the proxy.
    AllowList,
    /// Nothing of our environment is seen.
    Environment,
    /// Every process that was started is gone at the end.
    Tree,
    /// Processes outside cannot be seen, signalled or looked into.
    Processes,
    /// Parts of the kernel that a tool does not need are out of reach.
    Kernel,
    /// Processes and threads are counted.
    Pids,
    /// Memory is counted for all processes together.
    Memory,
    /// The share of the processors is bounded.
    Cpu,
    /// `/tmp` is private and bounded.
    Tmp,
}

impl Hold {
    /// All of them, in the order in which they are told.
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

    /// Its name.
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

impl Default for Limits {
    fn default() -> Self {
        Self {
            pids: limits::PIDS_DEFAULT,
            memory_bytes: limits::MEMORY_BYTES_DEFAULT,
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

impl Limits {
    /// The stricter of two in everything: a call can only harden what an operator allows.
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

impl Profile {
    /// Without files, without a network, with the usual limits.
    pub fn new(mode: IsolationMode) -> Self {
        let insists = match mode {
            IsolationMode::None => Vec::new(),
            _ => vec![
                Hold::Files,
                Hold::Network,
                Hold::Environment,
                Hold::Tree,
                Hold::Kernel,
                Hold::Pids,
            ],
        };
        Self {
            mode,
            limits: Limits::default(),
            workspace: Workspace::None,
            network: Network::Off,
            source: None,
            insists,
        }
    }

    /// With a workspace.
    #[must_use]
    pub fn workspace(mut self, workspace: Workspace) -> Self {
        self.workspace = workspace;
        self
    }

    /// With a network.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// With a root of its own.
    #[must_use]
    pub fn source(mut self, source: Source) -> Self {
        self.source = Some(source);
        self
    }

    /// With other limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Everything that a backend must hold for it, what its network needs included.
    pub fn demanded(&self) -> impl Iterator<Item = Hold> + '_ {
        let list = matches!(self.network, Network::Allow(_));
        self.insists.iter().copied().chain(list.then_some(Hold::AllowList))
    }
}

impl Workspace {
    /// The directory, if there is one.
    pub fn dir(&self) -> Option<&Path> {
        match self {
            Self::None => None,
            Self::ReadOnly(dir) | Self::ReadWrite(dir) => Some(dir),
        }
    }
}
