//! `container` by the command line of podman or docker, hardened the same way for each.
//!
//! No network but none, a read-only root, no capabilities, no new privileges, a user that is nobody, and bounds for memory,
//! processors, processes, files and `/tmp`. Values of variables go through the environment of the command and not through its
//! arguments, which everybody on the machine can read.
//!
//! Invariant: a container has a name that only we know. However its command ended, it is taken away by that name.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::resource::IsolationMode;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::backend::{Backend, Holding};
use crate::bare::{pipes, terms};
use crate::error::IsolationError;
use crate::job::{Input, Job};
use crate::place::{self, WORKSPACE};
use crate::profile::{Hold, Limits, Network, Profile, Workspace};
use crate::remains::{LastCommand, Leader, Remains};
use crate::running::{Running, Terms};
use crate::scratch::Scratch;
use crate::spawner::Spawner;

const NAME: &str = "container";
const TMP: &str = "/tmp";
/// The user and the group of a program that has no files to change.
const NOBODY: (u32, u32) = (65_534, 65_534);
/// The code of an engine that could not start a container.
const ENGINE_FAILED: i32 = 125;

/// What a container is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An image, by its name.
    Image(String),
    /// A directory with a root file system; podman only.
    Rootfs(PathBuf),
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
    /// `podman`, `docker`, or a path.
    pub engine: PathBuf,
    /// Arguments of the engine itself, before `run`.
    pub engine_args: Vec<String>,
    /// What a container is made of.
    pub source: Source,
    /// When an image is fetched.
    pub pull: Pull,
    /// Another runtime, such as `runc` or `runsc`.
    pub runtime: Option<String>,
    /// What no job goes beyond, whatever its profile says.
    pub ceiling: Limits,
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
            ceiling: Limits::default(),
        }
    }
}

/// Keeps programs in containers.
#[derive(Debug)]
pub struct Container {
    options: ContainerOptions,
    spawner: Arc<Spawner>,
    scratch: Scratch,
}

impl Container {
    /// Looks for the engine, and runs a program in a container.
    pub async fn open(mut options: ContainerOptions) -> Result<Self, IsolationError> {
        let unavailable =
            |why: String| IsolationError::Unavailable { mode: IsolationMode::Container, why };
        let engine = place::find(options.engine.as_os_str());
        options.engine =
            engine.map_err(|error| unavailable(format!("{error}; install podman or docker")))?;
        let opened = Self {
            options,
            spawner: Arc::new(Spawner::open()?),
            scratch: Scratch::open().map_err(IsolationError::io("no directory for sandboxes"))?,
        };
        let job = Job::new("true", [] as [&str; 0], Profile::new(IsolationMode::Container));
        let running = opened.begin(job).await?;
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
        let dir = self.scratch.job().map_err(IsolationError::io("no directory for a job"))?;
        let name = format!("provost-{}", dir.name());
        let limits = job.profile.limits.stricter(&self.options.ceiling);
        let workspace = match job.profile.workspace.dir() {
            Some(dir) => {
                let real = dir.canonicalize();
                Some(real.map_err(IsolationError::io("the workspace cannot be used"))?)
            }
            None => None,
        };
        let inside = workspace.as_ref().map(|_| Path::new(WORKSPACE));
        let env = place::environment(&job, inside, Path::new(TMP));
        let mut command = self.command();
        command.args(["run", "--rm", "-i", "--name", &name]).args(self.walls(&limits));
        command.args(self.files(&job, workspace.as_deref(), &limits)?);
        command.args(env.keys().flat_map(|name| ["--env", name]));
        match &self.options.source {
            Source::Image(image) => command.arg(self.pull()).arg(image),
            Source::Rootfs(path) => command.arg("--rootfs").arg(path),
        };
        command.arg(&job.program).args(&job.args);
        // The engine looks for its own programs and files; what is for the program is told by name above.
        let own = ["PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "CONTAINER_HOST"];
        let own = own.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
        command.env_clear().envs(env).envs(own).current_dir("/");
        pipes(&mut command, &job.input);
        let last = self.last(&name);
        let child = self.spawner.spawn(command).await;
        let spawner = Arc::clone(&self.spawner);
        let remains = Remains {
            leader: Leader::Program,
            cgroup: None,
            dir: Some(dir),
            last: Some(last),
            entrance: None,
            spawner,
        };
        let terms = Terms {
            failed_code: Some(ENGINE_FAILED),
            time: limits.time,
            ..terms(&job, NAME, false)
        };
        match child {
            Ok(child) => Running::new(child, remains, terms),
            Err(error) => {
                remains.clear();
                Err(error)
            }
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.options.engine);
        command.args(&self.options.engine_args);
        command
    }

    fn last(&self, name: &str) -> LastCommand {
        let mut args = self.options.engine_args.clone();
        args.extend(["rm", "-f", "-v", name].map(str::to_owned));
        LastCommand { program: self.options.engine.clone(), args }
    }

    fn pull(&self) -> &'static str {
        match self.options.pull {
            Pull::Never => "--pull=never",
            Pull::Missing => "--pull=missing",
            Pull::Always => "--pull=always",
        }
    }

    /// What stands around every container.
    fn walls(&self, limits: &Limits) -> Vec<String> {
        let cpus = f64::from(limits.cpu_percent.max(1)) / 100.0;
        let mut walls = vec![
            "--network=none".to_owned(),
            "--read-only".to_owned(),
            "--cap-drop=ALL".to_owned(),
            "--security-opt=no-new-privileges".to_owned(),
            "--ipc=private".to_owned(),
            "--hostname=sandbox".to_owned(),
            "--log-driver=none".to_owned(),
            format!("--memory={}b", limits.memory_bytes),
            format!("--memory-swap={}b", limits.memory_bytes),
            format!("--cpus={cpus:.2}"),
            format!("--pids-limit={}", limits.pids),
            format!("--ulimit=nofile={0}:{0}", limits.open_files),
            format!("--ulimit=nproc={0}:{0}", limits.pids),
            format!("--ulimit=fsize={0}:{0}", limits.file_bytes),
            format!("--ulimit=cpu={0}:{0}", limits.cpu_time.as_secs().max(1)),
            "--ulimit=core=0:0".to_owned(),
        ];
        walls.extend(self.options.runtime.iter().map(|runtime| format!("--runtime={runtime}")));
        walls
    }

    /// Its files, and the user who may change them.
    fn files(
        &self,
        job: &Job,
        workspace: Option<&Path>,
        limits: &Limits,
    ) -> Result<Vec<String>, IsolationError> {
        let mut files =
            vec![format!("--tmpfs={TMP}:rw,nosuid,nodev,mode=1777,size={}", limits.tmp_bytes)];
        let (mut user, mut start) = (NOBODY, PathBuf::from(TMP));
        if let Some(outside) = workspace {
            let text = outside.to_str().filter(|text| !text.contains([':', ',']));
            let text = text.ok_or_else(|| {
                IsolationError::Job("the path of the workspace has `:` or `,` in it".to_owned())
            })?;
            let is_writable = matches!(job.profile.workspace, Workspace::ReadWrite(_));
            let way = if is_writable { "rw" } else { "ro" };
            files.push(format!("--volume={text}:{WORKSPACE}:{way},nosuid,nodev"));
            if is_writable {
                let owner = outside
                    .metadata()
                    .map_err(IsolationError::io("the workspace cannot be used"))?;
                user = (owner.uid(), owner.gid());
            }
            start = PathBuf::from(WORKSPACE);
        }
        if let Some(dir) = &job.dir {
            start = start.join(dir);
        }
        files.push(format!("--user={}:{}", user.0, user.1));
        files.push(format!("--workdir={}", start.display()));
        Ok(files)
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
            Hold::Kernel => (true, "the engine's filter, no capabilities, no new privileges"),
            Hold::Pids | Hold::Memory | Hold::Cpu => (true, "a control group of the engine"),
            Hold::Tmp => (true, "a file system in memory, of bounded size"),
        };
        let holding = |hold| {
            let (is_held, how) = told(hold);
            Holding { hold, is_held, how: how.to_owned() }
        };
        Hold::ALL.into_iter().map(holding).collect()
    }

    fn start(&self, job: Job) -> BoxFuture<'_, Result<Running, IsolationError>> {
        self.begin(job).boxed()
    }

    fn workspace(&self, workspace: &Workspace) -> Option<PathBuf> {
        workspace.dir().map(|_| PathBuf::from(WORKSPACE))
    }
}
