//! `container` by the command line of an engine (podman, docker) or of a runtime (runc, crun), hardened the same way for each.
//!
//! No network but none, a read-only root, no capabilities, no new privileges, a user that is nobody, and bounds for memory,
//! processors, processes, files and `/tmp`. Values of variables never stand in the arguments of a command, which everybody on
//! the machine can read.
//!
//! With warm containers a job finds one that waits for it. Each is for one job and ends with it, so a job never sees what
//! another one left.
//!
//! Invariant: a container has a name that only we know, with the process in it that made it. However its command ended, it is
//! taken away by that name; what a process has left that is no more is taken away by the next one.

mod engine;
mod machine;
mod oci;
mod words;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::resource::IsolationMode;
use tokio_util::sync::CancellationToken;

use self::engine::{Engine, Launch, Shape};
use self::words::MISSING;
use crate::backend::none::pipes;
use crate::backend::{Backend, Holding, holdings};
use crate::command::{Input, Job};
use crate::error::IsolationError;
use crate::linux::layout::{self, WORKSPACE};
use crate::linux::scratch_dir::Scratch;
use crate::process::{Running, SetUp, Terms};
use crate::profile::{Hold, Limits, Network, Profile, Workspace};
use crate::teardown::{Leader, Remains};
use crate::warm::pool::{self, Pool, When};
use crate::warm::spawn_thread::Spawner;

const NAME: &str = "container";
const TMP: &str = "/tmp";
/// The user and the group of a program that has no files to change.
const NOBODY: (u32, u32) = (65_534, 65_534);

/// What a container is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An image, by its name; podman and docker only.
    Image(String),
    /// A directory with a root file system; not docker.
    Rootfs(PathBuf),
    /// The programs and libraries of this machine, to read; not docker.
    Machine,
}

/// When an image is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pull {
    /// Never: it must be there.
    #[default]
    Never,
    /// When it is not there.
    Missing,
    /// Before every job.
    Always,
}

/// How containers are run.
#[derive(Debug, Clone)]
pub struct ContainerOptions {
    /// `podman`, `docker`, `runc`, `crun`, or a path to one of them.
    pub engine: PathBuf,
    /// Arguments of the engine itself, before its command.
    pub engine_args: Vec<String>,
    /// What a container is made of whose profile does not say.
    pub source: Source,
    /// When an image is fetched.
    pub pull: Pull,
    /// Another runtime of podman or docker, such as `runc` or `runsc`.
    pub runtime: Option<String>,
    /// What no job goes beyond, whatever its profile says.
    pub ceiling: Limits,
    /// Containers that wait for each sort of job that has come lately; none by default.
    pub warm: usize,
}

impl ContainerOptions {
    /// The usual way.
    pub fn new(engine: impl Into<PathBuf>, source: Source) -> Self {
        Self {
            engine: engine.into(),
            engine_args: Vec::new(),
            source,
            pull: Pull::Never,
            runtime: None,
            // How long a job takes is for its profile to say: a server stays.
            ceiling: Limits { time: Duration::MAX, cpu_time: Duration::MAX, ..Limits::default() },
            warm: 0,
        }
    }
}

/// Keeps programs in containers.
#[derive(Debug)]
pub struct Container {
    maker: Arc<Maker>,
    pool: Arc<Pool<Maker>>,
    options: ContainerOptions,
}

/// Makes containers.
#[derive(Debug)]
struct Maker {
    engine: Engine,
    spawner: Arc<Spawner>,
    scratch: Scratch,
}

impl pool::Maker for Maker {
    type Shape = Shape;
    type Waiting = Running;

    fn make(self: Arc<Self>, shape: Shape) -> BoxFuture<'static, Result<Running, IsolationError>> {
        async move { self.start(&shape, &words::waiting()).await }.boxed()
    }

    fn has_ended(waiting: &Running) -> bool {
        waiting.has_ended()
    }
}

impl Maker {
    /// Starts a container. Somebody must say how long it may run.
    ///
    /// It is made by a task of its own: whoever gives up while it is made leaves one that is there, which is taken away like any
    /// other. Given up in the middle, it would be known to its runtime and to nobody else.
    async fn start(
        self: &Arc<Self>,
        shape: &Shape,
        launch: &Launch,
    ) -> Result<Running, IsolationError> {
        let (maker, shape, launch) = (Arc::clone(self), shape.clone(), launch.clone());
        let making = tokio::spawn(async move { maker.make_one(&shape, &launch).await });
        making.await.unwrap_or_else(|error| {
            Err(IsolationError::Job(format!("a container was not made: {error}")))
        })
    }

    async fn make_one(&self, shape: &Shape, launch: &Launch) -> Result<Running, IsolationError> {
        let dir = self.scratch.job().map_err(IsolationError::io("no directory for a job"))?;
        let name = engine::name(&dir);
        let made = self.engine.run(&name, shape, launch, dir.path());
        let remains = Remains {
            leader: Leader::Program,
            cgroup: self.engine.groups(&name),
            dir: Some(dir),
            root: None,
            last: Some(self.engine.end(&name)),
            entrance: None,
            spawner: Arc::clone(&self.spawner),
        };
        let started = async {
            let mut command = made?;
            pipes(&mut command, &Input::Piped);
            self.spawner.start(command).await
        };
        let terms = Terms {
            backend: NAME,
            set_up: self.engine.set_up(),
            time: shape.limits.time,
            output_bytes_max: shape.limits.output_bytes,
        };
        Running::of_started(started.await, remains, terms)
    }
}

impl Container {
    /// Looks for the engine, takes away what others have left in it, and runs a program in a container.
    pub async fn open(options: ContainerOptions) -> Result<Self, IsolationError> {
        let unavailable =
            |why: String| IsolationError::Unavailable { mode: IsolationMode::Container, why };
        let scratch = Scratch::open().map_err(IsolationError::io("no directory for sandboxes"))?;
        let engine = Engine::open(&options, &scratch).map_err(unavailable)?;
        let maker = Arc::new(Maker { engine, spawner: Arc::new(Spawner::open()?), scratch });
        let sweeping = Arc::clone(&maker);
        if tokio::task::spawn_blocking(move || sweeping.engine.sweep()).await.is_err() {
            tracing::warn!("containers that others have left may still be there");
        }
        let pool = Arc::new(Pool::new(Arc::clone(&maker), options.warm, When::FirstJob));
        let opened = Self { maker, pool, options };
        let job = Job::new("true", [] as [&str; 0], Profile::new(IsolationMode::Container));
        let running = opened.begin(job).await.map_err(|error| unavailable(error.to_string()))?;
        let ended = running.drive(Input::Empty, &CancellationToken::new(), |_, _| {}).await;
        match ended {
            Ok(ended) if ended.code == 0 => Ok(opened),
            Ok(ended) => Err(unavailable(format!("`true` ended with {}", ended.code))),
            Err(error) => Err(unavailable(error.to_string())),
        }
    }

    async fn begin(&self, job: Job) -> Result<Running, IsolationError> {
        job.check()?;
        if let Network::Allow(_) = &job.profile.network {
            return Err(IsolationError::Unavailable {
                mode: IsolationMode::Container,
                why: "a container has no way to the proxy: use `process`".to_owned(),
            });
        }
        let shape = self.shape(&job.profile)?;
        let inside = shape.workspace.as_ref().map(|_| Path::new(WORKSPACE));
        let start = PathBuf::from(if inside.is_some() { WORKSPACE } else { TMP });
        let launch = Launch {
            program: job.program.clone(),
            args: job.args.clone(),
            env: layout::environment(&job, inside, Path::new(TMP)),
            dir: job.dir.as_ref().map_or_else(|| start.clone(), |dir| start.join(dir)),
        };
        let Some(mut warm) = self.pool.take(&shape) else {
            return self.maker.start(&shape, &launch).await;
        };
        words::start(&mut warm, &launch).await?;
        let limits = &shape.limits;
        warm.begin(Terms {
            backend: NAME,
            set_up: SetUp::Unless(MISSING),
            time: limits.time,
            output_bytes_max: limits.output_bytes,
        });
        Ok(warm)
    }

    /// Everything about a container but what runs in it.
    fn shape(&self, profile: &Profile) -> Result<Shape, IsolationError> {
        let cannot = || IsolationError::io("the workspace cannot be used");
        let limits = profile.limits.stricter(&self.options.ceiling);
        let mut user = NOBODY;
        let workspace = match profile.workspace.dir() {
            None => None,
            Some(dir) => {
                let real = dir.canonicalize().map_err(cannot())?;
                if real.to_str().is_none_or(|text| text.contains([':', ','])) {
                    let why = "the path of the workspace has `:` or `,` in it, or is no text";
                    return Err(IsolationError::Job(why.to_owned()));
                }
                let is_writable = matches!(profile.workspace, Workspace::ReadWrite(_));
                if is_writable {
                    let owner = real.metadata().map_err(cannot())?;
                    user = (owner.uid(), owner.gid());
                }
                Some((real, is_writable))
            }
        };
        let source = profile.source.clone().unwrap_or_else(|| self.options.source.clone());
        self.maker
            .engine
            .check(&source)
            .map_err(|why| IsolationError::Unavailable { mode: IsolationMode::Container, why })?;
        Ok(Shape { source, limits, workspace, user })
    }
}

impl Backend for Container {
    fn name(&self) -> &'static str {
        NAME
    }

    fn mode(&self) -> IsolationMode {
        IsolationMode::Container
    }

    fn holds(&self) -> Vec<Holding> {
        let told = |hold: Hold| match hold {
            Hold::Files => (true, "a root of its own, read-only"),
            Hold::Network => (true, "no network"),
            Hold::AllowList => (false, "a container has no way to the proxy"),
            Hold::Environment => (true, "a clean environment"),
            Hold::Tree | Hold::Processes => (true, "a container, taken away by its name"),
            Hold::Kernel => (true, "a filter, no capabilities, no new privileges"),
            Hold::Pids | Hold::Memory | Hold::Cpu => (true, "a control group of the container"),
            Hold::Tmp => (true, "a file system in memory, of bounded size"),
        };
        holdings(told)
    }

    fn start(&self, job: Job) -> BoxFuture<'_, Result<Running, IsolationError>> {
        self.begin(job).boxed()
    }

    fn workspace(&self, workspace: &Workspace) -> Option<PathBuf> {
        workspace.dir().map(|_| PathBuf::from(WORKSPACE))
    }
}
