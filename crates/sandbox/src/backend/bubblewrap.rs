//! `process` isolation with bubblewrap: Linux namespaces, a separate root file system and a seccomp filter.
//!
//! A launcher sets the resource limits, opens the files that `bwrap` reads by descriptor, and executes `bwrap`. Without
//! a launcher, a shell does the same. `bwrap` runs with an empty environment: it runs outside of the sandbox, where a
//! variable of the command could make the dynamic loader load code, and a program can read the environment of the first
//! process in its namespace. `bwrap` reads the variables of the command from a file that only this user can read.
//! Recurring commands use warm sandboxes: see [`warm`].
//!
//! Invariant: outside of its namespace, the command runs with the user id of this process. It can therefore only read
//! `/proc`: for the kernel, `/proc/sys` and similar files belong to root outside of the namespace, whatever the user id
//! inside is.

mod shell;
mod warm;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::resource::IsolationMode;
use tokio_util::sync::CancellationToken;

use crate::backend::none::{pipes, process_options};
use crate::backend::{
    GuaranteeStatus, NO_CGROUP, SandboxBackend, cpu_status, guarantee_statuses, memory_status,
};
use crate::command::SandboxCommand;
use crate::egress::{self, ProxyListener};
use crate::error::IsolationError;
use crate::launcher::fork_server::LinuxNamespaces;
use crate::launcher::order::{BwrapLaunch, LaunchKind, LaunchOrder};
use crate::launcher::rlimits::Rlimits;
use crate::launcher::{Launcher, RELAY_ARG, variables};
use crate::limits::WARM_SANDBOXES_DEFAULT;
use crate::linux::cgroup::Cgroups;
use crate::linux::layout::{self, DEVICES, SYSTEM_DIRS, SandboxLayout, WORKSPACE};
use crate::linux::process_tree;
use crate::linux::rootfs::{Rootfs, RootfsCache};
use crate::linux::scratch_dir::ScratchDir;
use crate::linux::seccomp::{self, SharedWithHost, SocketPolicy};
use crate::process::{ProcessOptions, SandboxedProcess, SetupCheck};
use crate::profile::{Guarantee, IsolationProfile, ResourceLimits, WorkspaceMount};
use crate::teardown::{STATUS_FILE, Teardown};
use crate::warm::fork_server::{ForkServer, JobResources};
use crate::warm::pool::{WarmPool, WarmupPolicy};
use crate::warm::spawn_thread::SpawnThread;

const NAME: &str = "bubblewrap";
/// Private directory for temporary files.
const TMP: &str = "/tmp";
/// User and group id of the command.
const NOBODY: &str = "65534";
/// Directory in the sandbox for the launcher and the socket of the proxy.
const RUN: &str = "/run";
const LAUNCHER_INSIDE: &str = "/run/provost/launcher";
const PROXY_SOCKET_INSIDE: &str = "/run/provost/egress";

/// File with the seccomp filter, shared by all jobs.
const FILTER_FILE: &str = "filter";
/// File with the environment variables of the command, in the directory of its job.
const VARIABLES_FILE: &str = "variables";

/// Sets the process limit inside the sandbox, where the kernel counts the processes of the sandbox user.
const COUNT_SCRIPT: &str =
    "ulimit -u \"$1\" 2>/dev/null || ulimit -p \"$1\" 2>/dev/null || exit 125; shift; exec \"$@\"";
/// Files of `/proc` that are hidden from commands. The list omits files that need a capability, files that are
/// write-only, and files that every user can read and that only contain statistics.
const PROC_HIDDEN: [&str; 5] = [
    "/proc/keys",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/kallsyms",
    "/proc/latency_stats",
];

/// The bubblewrap backend.
#[derive(Debug)]
pub struct Bubblewrap {
    builder: Arc<BwrapBuilder>,
    pool: Arc<WarmPool<BwrapBuilder>>,
}

/// Builds and starts `bwrap` sandboxes.
#[derive(Debug)]
struct BwrapBuilder {
    bwrap: PathBuf,
    shell: PathBuf,
    launcher: Option<Launcher>,
    fork_server: Option<ForkServer>,
    spawn_thread: Arc<SpawnThread>,
    roots: RootfsCache,
    scratch: ScratchDir,
    /// Arguments of `bwrap` that every sandbox shares.
    system: Vec<String>,
    cgroups: Cgroups,
    is_root: bool,
}

impl Bubblewrap {
    /// Finds `bwrap` and runs a test command in a sandbox. Fails if either does not work on this machine.
    pub async fn open(launcher: Option<Launcher>) -> Result<Self, IsolationError> {
        let unavailable = |reason: &str| IsolationError::Unavailable {
            mode: IsolationMode::Process,
            reason: reason.to_owned(),
        };
        let bwrap = layout::find_program("bwrap".as_ref())
            .map_err(|_missing| unavailable("`bwrap` is not installed"))?;
        let shell = layout::find_program("sh".as_ref())?;
        process_tree::check_supported(IsolationMode::Process)?;
        let scratch = ScratchDir::open()
            .map_err(IsolationError::io("cannot create the directory for sandboxes"))?;
        let filter = seccomp::filter(SocketPolicy::OwnNetwork, SharedWithHost::default())?;
        let written = fs::write(scratch.path().join(FILTER_FILE), seccomp::encode(&filter));
        written.map_err(IsolationError::io("cannot write the seccomp filter"))?;
        let roots = RootfsCache::open(scratch.clone());
        let roots = roots.map_err(IsolationError::io("cannot copy the system files"))?;
        let spawn_thread = Arc::new(SpawnThread::open()?);
        let cgroups = Cgroups::detect();
        let fork_server = launcher.clone().map(|launcher| {
            ForkServer::open(
                launcher,
                Arc::clone(&spawn_thread),
                scratch.clone(),
                cgroups.clone(),
                LinuxNamespaces::Shared,
            )
        });
        let fork_server = fork_server.transpose()?;
        let mut opened = BwrapBuilder {
            bwrap,
            shell,
            launcher,
            fork_server,
            spawn_thread,
            scratch,
            roots,
            system: system_args(),
            cgroups,
            is_root: rustix::process::geteuid().is_root(),
        };
        if let Err(error) = opened.self_check().await {
            // A broken launcher is not a reason to have no sandbox: a sandbox without a launcher is equally strict.
            let Some(_fork_server) = opened.fork_server.take() else {
                return Err(unavailable(&error.to_string()));
            };
            opened.self_check().await.map_err(|error| unavailable(&error.to_string()))?;
            tracing::warn!(%error, "the launcher does not work: sandboxes are started by a shell");
        }
        let builder = Arc::new(opened);
        let pool = Arc::new(WarmPool::new(
            Arc::clone(&builder),
            WARM_SANDBOXES_DEFAULT,
            WarmupPolicy::SecondJob,
        ));
        Ok(Self { builder, pool })
    }

    /// Starts a command in a warm sandbox if a suitable one is ready, otherwise in a new one.
    async fn begin(&self, job: SandboxCommand) -> Result<SandboxedProcess, IsolationError> {
        let plan = self.builder.plan(&job)?;
        if let Some(spec) = self.builder.warm_spec(&job, &plan)?
            && let Some(waiting) = self.pool.acquire(&spec)
        {
            match self.builder.start_in_warm(waiting, &job, &plan) {
                Ok(running) => return Ok(running),
                Err(error) => tracing::debug!(%error, "a warm sandbox is gone"),
            }
        }
        self.builder.begin(job, plan).await
    }
}

/// The parts of a sandbox that are known before it starts.
struct BwrapPlan {
    layout: SandboxLayout,
    root: Arc<Rootfs>,
    /// Arguments of `bwrap` that describe the sandbox.
    sandbox: Vec<String>,
}

impl BwrapBuilder {
    /// Runs `true` in a new sandbox. Fails unless it exits with code 0.
    async fn self_check(&self) -> Result<(), IsolationError> {
        let job = SandboxCommand::new(
            "true",
            [] as [&str; 0],
            IsolationProfile::new(IsolationMode::Process),
        );
        let input = job.input.clone();
        let plan = self.plan(&job)?;
        let ended = self
            .begin(job, plan)
            .await?
            .wait_with_output(input, &CancellationToken::new(), |_, _| {})
            .await?;
        match ended.code {
            0 => Ok(()),
            code => Err(IsolationError::Setup {
                backend: NAME,
                reason: format!("the test command exited with code {code}"),
            }),
        }
    }

    /// Prepares everything about the sandbox of a command that is known before it starts.
    fn plan(&self, job: &SandboxCommand) -> Result<BwrapPlan, IsolationError> {
        let layout = SandboxLayout::of(job, Some(WORKSPACE), Path::new(TMP))?;
        let root = self.roots.current();
        let root = root.map_err(IsolationError::io("cannot copy the system files"))?;
        let sandbox = self.sandbox_args(&layout, job, &root)?;
        Ok(BwrapPlan { layout, root, sandbox })
    }

    /// Starts a command in a new sandbox. Its process comes from the fork server if there is a launcher.
    async fn begin(
        &self,
        job: SandboxCommand,
        plan: BwrapPlan,
    ) -> Result<SandboxedProcess, IsolationError> {
        let BwrapPlan { layout, root, sandbox } = plan;
        let limits = &job.profile.limits;
        let (waiting, resources) = match &self.fork_server {
            Some(fork_server) => {
                let (waiting, resources) = fork_server.acquire(limits).await?;
                (Some((fork_server, waiting)), resources)
            }
            None => (None, JobResources::create(&self.scratch, &self.cgroups, limits)?),
        };
        let dir = resources.dir.path();
        let proxy = job.profile.network.open_proxy(dir)?;
        let mut command_line: Vec<OsString> = vec![self.bwrap.clone().into()];
        command_line.extend(sandbox.into_iter().map(OsString::from));
        if let Some(proxy) = &proxy {
            command_line.extend(self.support_mounts(Some(proxy)).into_iter().map(OsString::from));
        }
        command_line.push("--".into());
        command_line.extend(self.inner_command(&layout, &job, proxy.is_some()));
        command_line.extend(job.args.iter().cloned());
        let launch = self.bwrap_launch(limits, dir);
        let env = layout::environment(&job, layout.workspace.as_deref(), Path::new(TMP));
        let started = match waiting {
            Some((fork_server, waiting)) => {
                let order = LaunchOrder { kind: LaunchKind::Bwrap(launch), command_line, env };
                fork_server.start(waiting, &order, &job)
            }
            None => {
                let told = dir.join(VARIABLES_FILE);
                let mut command = shell::command(
                    &self.shell,
                    &launch,
                    &told,
                    &resources.cgroup.procs_files(),
                    &command_line,
                );
                command.env_clear().current_dir("/");
                pipes(&mut command, &job.input);
                match fs::write(&told, variables(&env)) {
                    Ok(()) => self.spawn_thread.start(command).await,
                    Err(error) => {
                        Err(IsolationError::io("cannot create the directory of a job")(error))
                    }
                }
            }
        };
        let teardown = Teardown::of_sandbox(resources, Arc::clone(&self.spawn_thread));
        let teardown = Teardown { root: Some(root), proxy, ..teardown };
        let process_options =
            ProcessOptions { setup_check: SetupCheck::StatusFile, ..process_options(&job, NAME) };
        SandboxedProcess::of_started(started, teardown, process_options)
    }

    /// Returns the launch description of `bwrap`.
    fn bwrap_launch(&self, limits: &ResourceLimits, dir: &Path) -> BwrapLaunch {
        BwrapLaunch {
            rlimits: Rlimits::of(limits, self.cgroups.counts_memory()),
            status: dir.join(STATUS_FILE),
            filter: self.scratch.path().join(FILTER_FILE),
        }
    }

    /// Returns the arguments of `bwrap` that describe the sandbox: namespaces, mounts and working directory.
    fn sandbox_args(
        &self,
        layout: &SandboxLayout,
        job: &SandboxCommand,
        root: &Rootfs,
    ) -> Result<Vec<String>, IsolationError> {
        // The root must come first: everything else is mounted into it, and it is read-only.
        let mut args = vec![
            "--ro-bind".to_owned(),
            root.path().to_string_lossy().into_owned(),
            "/".to_owned(),
        ];
        args.extend_from_slice(&self.system);
        let mut add = |words: &[&str]| args.extend(words.iter().map(|word| (*word).to_owned()));
        let size = job.profile.limits.tmp_bytes.to_string();
        add(&["--size", &size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]);
        add(&["--perms", "1777", "--size", &size, "--tmpfs", TMP]);
        if let Some(host_workspace) = &layout.host_workspace {
            let kind = if layout.is_writable { "--bind" } else { "--ro-bind" };
            let host_workspace = host_workspace.to_str().ok_or_else(|| {
                IsolationError::Invalid("the path of the workspace is not valid UTF-8".to_owned())
            })?;
            add(&[kind, host_workspace, WORKSPACE]);
        }
        add(&["--chdir", &layout.dir.to_string_lossy()]);
        Ok(args)
    }

    /// Returns the mounts of the launcher and of the proxy socket, if there is one.
    fn support_mounts(&self, proxy: Option<&ProxyListener>) -> Vec<String> {
        let Some(launcher) = &self.launcher else { return Vec::new() };
        let shown = |path: &Path| path.to_string_lossy().into_owned();
        let mut args: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| args.extend(words.iter().map(|word| (*word).to_owned()));
        add(&["--tmpfs", RUN]);
        add(&["--ro-bind", &shown(&launcher.program), LAUNCHER_INSIDE]);
        if let Some(proxy) = proxy {
            add(&["--ro-bind", &shown(proxy.path()), PROXY_SOCKET_INSIDE]);
        }
        add(&["--remount-ro", RUN]);
        args
    }

    /// Returns the command line that `bwrap` executes: the relay and the process limit, if needed, then the program.
    fn inner_command(
        &self,
        layout: &SandboxLayout,
        job: &SandboxCommand,
        has_network: bool,
    ) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        if let (true, Some(launcher)) = (has_network, &self.launcher) {
            words.push(LAUNCHER_INSIDE.into());
            words.extend(launcher.args.iter().map(Into::into));
            words.extend([
                RELAY_ARG.into(),
                egress::PORT.to_string().into(),
                PROXY_SOCKET_INSIDE.into(),
            ]);
        }
        if !self.cgroups.counts_pids() {
            words.extend(["/bin/sh", "-c", COUNT_SCRIPT, "sh"].map(Into::into));
            words.push(job.profile.limits.pids.to_string().into());
        }
        words.push(layout.program.clone().into());
        words
    }
}

/// Returns the arguments of `bwrap` that every sandbox shares.
fn system_args() -> Vec<String> {
    let mut args: Vec<String> = Vec::new();
    let mut add = |words: &[&str]| args.extend(words.iter().map(|word| (*word).to_owned()));
    add(&["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]);
    add(&["--uid", NOBODY, "--gid", NOBODY, "--cap-drop", "ALL", "--hostname", "sandbox"]);
    // The root file system already contains the symbolic links.
    for dir in
        SYSTEM_DIRS.map(Path::new).into_iter().filter(|dir| dir.is_dir() && !dir.is_symlink())
    {
        let dir = dir.to_string_lossy();
        add(&["--ro-bind-try", &dir, &dir]);
    }
    add(&["--dev", "/dev", "--proc", "/proc"]);
    for file in PROC_HIDDEN.into_iter().filter(|file| Path::new(file).exists()) {
        add(&["--ro-bind", DEVICES[0], file]);
    }
    add(&["--remount-ro", "/proc"]);
    args
}

impl SandboxBackend for Bubblewrap {
    fn name(&self) -> &'static str {
        NAME
    }

    fn mode(&self) -> IsolationMode {
        IsolationMode::Process
    }

    fn guarantees(&self) -> Vec<GuaranteeStatus> {
        let groups = &self.builder.cgroups;
        let status_of = |guarantee: Guarantee| match guarantee {
            Guarantee::Files => (true, "a separate root with a read-only system"),
            Guarantee::Network => (true, "an empty network namespace"),
            Guarantee::AllowList => match &self.builder.launcher {
                Some(_) => (true, "only the proxy is reachable"),
                None => {
                    (false, "this program cannot act as the launcher that connects to the proxy")
                }
            },
            Guarantee::Environment => (true, "a clean environment, also for the first process"),
            Guarantee::Tree => (true, "a process namespace that ends as a whole"),
            Guarantee::Processes => (true, "a process namespace and a separate session"),
            Guarantee::Kernel => (true, "a seccomp filter, no capabilities, no new privileges"),
            Guarantee::Pids if groups.counts_pids() => (true, "a control group"),
            Guarantee::Pids if self.builder.is_root => (false, NO_CGROUP),
            Guarantee::Pids => (true, "a process limit for the user of the namespace"),
            Guarantee::Memory => memory_status(groups),
            Guarantee::Cpu => cpu_status(groups),
            Guarantee::Tmp => (true, "a size-limited file system in memory"),
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
        workspace.dir().map(|_| PathBuf::from(WORKSPACE))
    }
}
