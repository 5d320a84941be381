//! `process` isolation without bubblewrap: Landlock for files, a seccomp filter, resource limits, and namespaces if the
//! kernel permits them.
//!
//! Files keep their paths, so a command sees the paths of the machine, but access fails. A command has no `/proc`, no
//! `/tmp` except its own directory (`TMPDIR`), and no socket paths. Landlock does not control permissions, owners and
//! times of files, so the filter blocks all path-based changes to them: `chmod` fails even in the workspace.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::resource::IsolationMode;
use tokio_util::sync::CancellationToken;

use crate::backend::none::process_options;
use crate::backend::{
    GuaranteeStatus, NO_CGROUP, SandboxBackend, cpu_status, guarantee_statuses, memory_status,
};
use crate::command::SandboxCommand;
use crate::error::IsolationError;
use crate::launcher::Launcher;
use crate::launcher::fork_server::LinuxNamespaces;
use crate::launcher::order::{LandlockLaunch, LaunchKind, LaunchOrder};
use crate::launcher::rlimits::Rlimits;
use crate::linux::cgroup::Cgroups;
use crate::linux::layout::{self, DEVICES, SYSTEM_DIRS, SYSTEM_FILES, SandboxLayout};
use crate::linux::process_tree;
use crate::linux::scratch_dir::{JobDir, ScratchDir};
use crate::process::{ProcessOptions, SandboxedProcess, SetupCheck};
use crate::profile::{Guarantee, IsolationProfile, WorkspaceMount};
use crate::teardown::Teardown;
use crate::warm::fork_server::ForkServer;
use crate::warm::spawn_thread::SpawnThread;

const NAME: &str = "landlock";

/// The Landlock backend.
#[derive(Debug)]
pub struct LandlockBackend {
    fork_server: ForkServer,
    spawn_thread: Arc<SpawnThread>,
    cgroups: Cgroups,
    has_namespaces: bool,
    is_root: bool,
}

impl LandlockBackend {
    /// Starts the fork server and runs a test command with namespaces. If that fails, tries without namespaces.
    pub async fn open(launcher: Launcher) -> Result<Self, IsolationError> {
        let opened = Self::attempt(launcher.clone(), /*has_namespaces*/ true).await;
        match opened {
            Ok(opened) => Ok(opened),
            Err(_) => Self::without_namespaces(launcher).await,
        }
    }

    /// Opens the backend without namespaces, as on a machine that does not permit them.
    pub async fn without_namespaces(launcher: Launcher) -> Result<Self, IsolationError> {
        Self::attempt(launcher, /*has_namespaces*/ false).await
    }

    /// Opens the backend and runs a test command. Fails if the command fails.
    async fn attempt(launcher: Launcher, has_namespaces: bool) -> Result<Self, IsolationError> {
        let unavailable =
            |reason: String| IsolationError::Unavailable { mode: IsolationMode::Process, reason };
        process_tree::check_supported(IsolationMode::Process)?;
        let spawn_thread = Arc::new(SpawnThread::open()?);
        let scratch = ScratchDir::open()
            .map_err(IsolationError::io("cannot create the directory for sandboxes"))?;
        let cgroups = Cgroups::detect();
        let namespaces =
            if has_namespaces { LinuxNamespaces::New } else { LinuxNamespaces::Shared };
        let (thread, groups) = (Arc::clone(&spawn_thread), cgroups.clone());
        let opened = Self {
            fork_server: ForkServer::open(launcher, thread, scratch, groups, namespaces)?,
            spawn_thread,
            cgroups,
            has_namespaces,
            is_root: rustix::process::geteuid().is_root(),
        };
        let job = SandboxCommand::new(
            "true",
            [] as [&str; 0],
            IsolationProfile::new(IsolationMode::Process),
        );
        let input = job.input.clone();
        let running = opened.begin(job).await?;
        let ended = running.wait_with_output(input, &CancellationToken::new(), |_, _| {}).await;
        match ended {
            Ok(ended) if ended.code == 0 => Ok(opened),
            Ok(ended) => {
                Err(unavailable(format!("the test command exited with code {}", ended.code)))
            }
            Err(error) => Err(unavailable(error.to_string())),
        }
    }

    /// Starts a command in a process of the fork server.
    async fn begin(&self, job: SandboxCommand) -> Result<SandboxedProcess, IsolationError> {
        let acquired = self.fork_server.acquire(&job.profile.limits).await?;
        let (waiting, resources) = acquired;
        let dir = &resources.dir;
        let tmp = dir.path().join("tmp");
        std::fs::create_dir(&tmp)
            .map_err(IsolationError::io("cannot create the directory of a job"))?;
        let layout = SandboxLayout::of(&job, None, &tmp)?;
        let proxy = job.profile.network.open_proxy(dir.path())?;
        let mut launch = self.launch(&job, &layout, dir, &tmp);
        launch.proxy_socket = proxy.as_ref().map(|proxy| proxy.path().to_owned());
        let order = LaunchOrder {
            kind: LaunchKind::Landlock(Box::new(launch)),
            command_line: layout::command_line(&layout, &job),
            env: layout::environment(&job, layout.workspace.as_deref(), &tmp),
        };
        let started = self.fork_server.start(waiting, &order, &job);
        let teardown =
            Teardown { proxy, ..Teardown::of_sandbox(resources, Arc::clone(&self.spawn_thread)) };
        let process_options =
            ProcessOptions { setup_check: SetupCheck::StatusFile, ..process_options(&job, NAME) };
        SandboxedProcess::of_started(started, teardown, process_options)
    }

    /// Returns the restrictions of a command: the paths that it may read and write, and its limits.
    fn launch(
        &self,
        job: &SandboxCommand,
        layout: &SandboxLayout,
        dir: &JobDir,
        tmp: &Path,
    ) -> LandlockLaunch {
        let limits = &job.profile.limits;
        let system = SYSTEM_DIRS.iter().chain(&SYSTEM_FILES).map(PathBuf::from);
        let (mut read, mut write) = (system.collect::<Vec<_>>(), vec![tmp.to_owned()]);
        if let Some(host_workspace) = &layout.host_workspace {
            let list = if layout.is_writable { &mut write } else { &mut read };
            list.push(host_workspace.clone());
        }
        let counts = !self.cgroups.counts_pids();
        LandlockLaunch {
            dir: dir.path().to_owned(),
            start: layout.dir.clone(),
            read,
            write,
            devices: DEVICES.map(PathBuf::from).to_vec(),
            is_root: self.is_root,
            has_namespaces: self.has_namespaces,
            proxy_socket: None,
            rlimits: Rlimits::of(limits, self.cgroups.counts_memory()),
            pids: counts.then_some(u64::from(limits.pids)),
        }
    }
}

impl SandboxBackend for LandlockBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn mode(&self) -> IsolationMode {
        IsolationMode::Process
    }

    fn guarantees(&self) -> Vec<GuaranteeStatus> {
        let (groups, namespaces) = (&self.cgroups, self.has_namespaces);
        let status_of = |guarantee: Guarantee| match guarantee {
            Guarantee::Files => (true, "Landlock: only the read-only system and the workspace"),
            Guarantee::Network if namespaces => {
                (true, "no sockets, and an empty network namespace")
            }
            Guarantee::Network => (true, "no sockets"),
            Guarantee::AllowList if namespaces => (true, "only the proxy is reachable"),
            Guarantee::AllowList => (false, "the kernel permits no network namespace"),
            Guarantee::Environment => (true, "a clean environment, no /proc"),
            Guarantee::Tree if namespaces => (true, "a process namespace that ends as a whole"),
            Guarantee::Tree => (true, "a supervisor that inherits every orphaned process"),
            Guarantee::Processes if namespaces => (true, "a process namespace, no /proc"),
            Guarantee::Processes => (true, "Landlock scopes, a seccomp filter, no /proc"),
            Guarantee::Kernel => (true, "a seccomp filter, no new privileges"),
            Guarantee::Pids if groups.counts_pids() => (true, "a control group"),
            Guarantee::Pids if self.is_root => (false, NO_CGROUP),
            Guarantee::Pids if namespaces => {
                (true, "a process limit for the user of the namespace")
            }
            Guarantee::Pids => {
                (true, "a process limit for the user, on top of its existing processes")
            }
            Guarantee::Memory => memory_status(groups),
            Guarantee::Cpu => cpu_status(groups),
            Guarantee::Tmp => {
                (false, "a private directory on disk: only the size of each file is limited")
            }
        };
        guarantee_statuses(status_of)
    }

    fn start(
        &self,
        job: SandboxCommand,
    ) -> BoxFuture<'_, Result<SandboxedProcess, IsolationError>> {
        self.begin(job).boxed()
    }

    fn workspace(&self, workspace: &WorkspaceMount) -> Option<PathBuf> {
        workspace.dir().map(Path::to_owned)
    }
}
