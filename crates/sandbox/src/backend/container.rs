//! `container` isolation with the command line of an engine (podman, docker) or of a runtime (runc, crun), hardened in
//! the same way for each.
//!
//! A container has no network, a read-only root, no capabilities, no new privileges, an unprivileged user, and limits
//! on memory, processors, processes, files and `/tmp`. Values of variables are never command-line arguments, which
//! every user of the machine can read, unless an engine offers no other way.
//!
//! With warm containers, a command uses a container that is already running. Each container serves one command and ends
//! with it, so a command never sees the data of another one.
//!
//! Invariant: the unique name of a container contains the identity of the process that created it. The backend removes
//! every container by name, however its command ended. The next start removes the containers of processes that no
//! longer exist.

mod engine;
mod exec_script;
mod host_rootfs;
mod oci;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::resource::IsolationMode;
use tokio_util::sync::CancellationToken;

use self::engine::{ContainerCommand, ContainerEngine, ContainerSpec};
use self::exec_script::EXIT_NOT_FOUND;
use crate::backend::none::pipes;
use crate::backend::{GuaranteeStatus, SandboxBackend, guarantee_statuses};
use crate::command::{SandboxCommand, Stdin};
use crate::error::IsolationError;
use crate::linux::layout::{self, WORKSPACE};
use crate::linux::scratch_dir::ScratchDir;
use crate::process::{ProcessOptions, SandboxedProcess, SetupCheck};
use crate::profile::{Guarantee, IsolationProfile, NetworkAccess, ResourceLimits, WorkspaceMount};
use crate::teardown::{RootProcess, Teardown};
use crate::warm::pool::{self, WarmPool, WarmupPolicy};
use crate::warm::spawn_thread::SpawnThread;

const NAME: &str = "container";
const TMP: &str = "/tmp";
/// User and group of a command without a writable workspace.
const NOBODY: (u32, u32) = (65_534, 65_534);

/// Root file system of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootfsSource {
    /// An image, by name. Only podman and docker.
    Image(String),
    /// A directory with a root file system. Not docker.
    Rootfs(PathBuf),
    /// The programs and libraries of this machine, read-only. Not docker.
    Host,
}

/// When an image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PullPolicy {
    /// Never. The image must exist locally.
    #[default]
    Never,
    /// If the image does not exist locally.
    Missing,
    /// Before every command.
    Always,
}

/// Options of the container backend.
#[derive(Debug, Clone)]
pub struct ContainerOptions {
    /// `podman`, `docker`, `runc`, `crun`, or the path of one of them.
    pub engine: PathBuf,
    /// Arguments of the engine, before its subcommand.
    pub engine_args: Vec<String>,
    /// Root file system for profiles that do not name one.
    pub source: RootfsSource,
    /// When an image is pulled.
    pub pull: PullPolicy,
    /// Another runtime of podman or docker, such as `runc` or `runsc`. `None`: the default of the engine.
    pub runtime: Option<String>,
    /// Upper limits for every command, whatever its profile requests.
    pub ceiling: ResourceLimits,
    /// Number of warm containers per recently used specification. Default: 0.
    pub warm: usize,
}

impl ContainerOptions {
    /// Returns the default options.
    pub fn new(engine: impl Into<PathBuf>, source: RootfsSource) -> Self {
        Self {
            engine: engine.into(),
            engine_args: Vec::new(),
            source,
            pull: PullPolicy::Never,
            runtime: None,
            // No limits on time: a server may run for as long as its profile allows.
            ceiling: ResourceLimits {
                time: Duration::MAX,
                cpu_time: Duration::MAX,
                ..ResourceLimits::default()
            },
            warm: 0,
        }
    }
}

/// The container backend.
#[derive(Debug)]
pub struct Container {
    factory: Arc<ContainerFactory>,
    pool: Arc<WarmPool<ContainerFactory>>,
    options: ContainerOptions,
}

/// Creates containers.
#[derive(Debug)]
struct ContainerFactory {
    engine: ContainerEngine,
    spawn_thread: Arc<SpawnThread>,
    scratch: ScratchDir,
}

impl pool::WarmFactory for ContainerFactory {
    type Spec = ContainerSpec;
    type Sandbox = SandboxedProcess;

    fn create(
        self: Arc<Self>,
        spec: ContainerSpec,
    ) -> BoxFuture<'static, Result<SandboxedProcess, IsolationError>> {
        async move { self.start(&spec, &exec_script::waiting_shell()).await }.boxed()
    }

    fn has_ended(waiting: &SandboxedProcess) -> bool {
        waiting.has_ended()
    }
}

impl ContainerFactory {
    /// Starts a container. The specification must contain a time limit.
    ///
    /// A separate task creates the container: if the caller is dropped meanwhile, the container still exists as a value
    /// and is removed like any other. An interrupted creation would leave a container that only its runtime knows.
    async fn start(
        self: &Arc<Self>,
        spec: &ContainerSpec,
        command: &ContainerCommand,
    ) -> Result<SandboxedProcess, IsolationError> {
        let (factory, spec, command) = (Arc::clone(self), spec.clone(), command.clone());
        let creation = tokio::spawn(async move { factory.create_container(&spec, &command).await });
        creation.await.unwrap_or_else(|error| {
            Err(IsolationError::Invalid(format!("the container was not created: {error}")))
        })
    }

    /// Starts the engine's process that creates and runs the container. Does not wait for the container. If the start
    /// fails, the container is removed.
    async fn create_container(
        &self,
        spec: &ContainerSpec,
        command: &ContainerCommand,
    ) -> Result<SandboxedProcess, IsolationError> {
        let dir = self
            .scratch
            .create_job_dir()
            .map_err(IsolationError::io("cannot create the directory of a job"))?;
        let name = engine::name(&dir);
        let built = self.engine.run(&name, spec, command, dir.path());
        let teardown = Teardown {
            root_process: RootProcess::Program,
            cgroup: self.engine.cgroups(&name),
            dir: Some(dir),
            root: None,
            cleanup: Some(self.engine.cleanup_command(&name)),
            proxy: None,
            spawn_thread: Arc::clone(&self.spawn_thread),
        };
        let started = async {
            let mut command = built?;
            pipes(&mut command, &Stdin::Piped);
            self.spawn_thread.start(command).await
        };
        let process_options = ProcessOptions {
            backend: NAME,
            setup_check: self.engine.setup_check(),
            time: spec.limits.time,
            output_bytes_max: spec.limits.output_bytes,
        };
        SandboxedProcess::of_started(started.await, teardown, process_options)
    }
}

impl Container {
    /// Finds the engine, removes the containers of processes that no longer exist, and runs a test command. Fails if
    /// any of them does not work.
    pub async fn open(options: ContainerOptions) -> Result<Self, IsolationError> {
        let unavailable =
            |reason: String| IsolationError::Unavailable { mode: IsolationMode::Container, reason };
        let scratch = ScratchDir::open()
            .map_err(IsolationError::io("cannot create the directory for sandboxes"))?;
        let engine = ContainerEngine::open(&options, &scratch).map_err(unavailable)?;
        let factory = Arc::new(ContainerFactory {
            engine,
            spawn_thread: Arc::new(SpawnThread::open()?),
            scratch,
        });
        let sweeper = Arc::clone(&factory);
        if tokio::task::spawn_blocking(move || sweeper.engine.sweep()).await.is_err() {
            tracing::warn!("abandoned containers may remain");
        }
        let pool =
            Arc::new(WarmPool::new(Arc::clone(&factory), options.warm, WarmupPolicy::FirstJob));
        let opened = Self { factory, pool, options };
        let job = SandboxCommand::new(
            "true",
            [] as [&str; 0],
            IsolationProfile::new(IsolationMode::Container),
        );
        let running = opened.begin(job).await.map_err(|error| unavailable(error.to_string()))?;
        let ended =
            running.wait_with_output(Stdin::Empty, &CancellationToken::new(), |_, _| {}).await;
        match ended {
            Ok(ended) if ended.code == 0 => Ok(opened),
            Ok(ended) => {
                Err(unavailable(format!("the test command exited with code {}", ended.code)))
            }
            Err(error) => Err(unavailable(error.to_string())),
        }
    }

    /// Starts a command in a warm container if one is ready, otherwise in a new one. Fails for a profile with network
    /// access.
    async fn begin(&self, job: SandboxCommand) -> Result<SandboxedProcess, IsolationError> {
        job.check()?;
        if let NetworkAccess::Allow(_) = &job.profile.network {
            return Err(IsolationError::Unavailable {
                mode: IsolationMode::Container,
                reason: "a container cannot reach the proxy: use `process`".to_owned(),
            });
        }
        let spec = self.spec(&job.profile)?;
        let inside = spec.workspace.as_ref().map(|_| Path::new(WORKSPACE));
        let start = PathBuf::from(if inside.is_some() { WORKSPACE } else { TMP });
        let command = ContainerCommand {
            program: job.program.clone(),
            args: job.args.clone(),
            env: layout::environment(&job, inside, Path::new(TMP)),
            dir: job.dir.as_ref().map_or_else(|| start.clone(), |dir| start.join(dir)),
        };
        let Some(mut warm) = self.pool.acquire(&spec) else {
            return self.factory.start(&spec, &command).await;
        };
        exec_script::start(&mut warm, &command).await?;
        let limits = &spec.limits;
        warm.begin(ProcessOptions {
            backend: NAME,
            setup_check: SetupCheck::ExitCodeNot(EXIT_NOT_FOUND),
            time: limits.time,
            output_bytes_max: limits.output_bytes,
        });
        Ok(warm)
    }

    /// Returns everything about the container except its command.
    fn spec(&self, profile: &IsolationProfile) -> Result<ContainerSpec, IsolationError> {
        let cannot = || IsolationError::io("cannot use the workspace");
        let limits = profile.limits.stricter(&self.options.ceiling);
        let mut user = NOBODY;
        let workspace = match profile.workspace.dir() {
            None => None,
            Some(dir) => {
                let real = dir.canonicalize().map_err(cannot())?;
                if real.to_str().is_none_or(|text| text.contains([':', ','])) {
                    let reason =
                        "the path of the workspace contains `:` or `,`, or is not valid UTF-8";
                    return Err(IsolationError::Invalid(reason.to_owned()));
                }
                let is_writable = matches!(profile.workspace, WorkspaceMount::ReadWrite(_));
                if is_writable {
                    let owner = real.metadata().map_err(cannot())?;
                    user = (owner.uid(), owner.gid());
                }
                Some((real, is_writable))
            }
        };
        let source = profile.source.clone().unwrap_or_else(|| self.options.source.clone());
        self.factory.engine.check(&source).map_err(|reason| IsolationError::Unavailable {
            mode: IsolationMode::Container,
            reason,
        })?;
        Ok(ContainerSpec { source, limits, workspace, user })
    }
}

impl SandboxBackend for Container {
    fn name(&self) -> &'static str {
        NAME
    }

    fn mode(&self) -> IsolationMode {
        IsolationMode::Container
    }

    fn guarantees(&self) -> Vec<GuaranteeStatus> {
        let status_of = |guarantee: Guarantee| match guarantee {
            Guarantee::Files => (true, "a separate read-only root"),
            Guarantee::Network => (true, "no network"),
            Guarantee::AllowList => (false, "a container cannot reach the proxy"),
            Guarantee::Environment => (true, "a clean environment"),
            Guarantee::Tree | Guarantee::Processes => (true, "a container, removed by name"),
            Guarantee::Kernel => (true, "a seccomp filter, no capabilities, no new privileges"),
            Guarantee::Pids | Guarantee::Memory | Guarantee::Cpu => {
                (true, "the control group of the container")
            }
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
