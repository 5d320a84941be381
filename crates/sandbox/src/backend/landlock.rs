//! `process` without bubblewrap: Landlock for files, a filter for calls, bounds, and name spaces where the kernel gives them.
//!
//! The files stay where they are, so a program sees the paths of the machine and is refused at them: it has no `/proc`, no
//! `/tmp` but its own directory (`TMPDIR`), and no sockets by a path. Landlock does not look at rights, owners and times of
//! files, so a program cannot change them by a path at all: `chmod` fails, also in the workspace.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::resource::IsolationMode;
use tokio_util::sync::CancellationToken;

use crate::backend::none::terms;
use crate::backend::{Backend, Holding, NO_CGROUP, cpu_holding, holdings, memory_holding};
use crate::command::Job;
use crate::error::IsolationError;
use crate::launcher::Launcher;
use crate::launcher::fork_server::Spaces;
use crate::launcher::order::{Order, Orders, Work};
use crate::launcher::rlimits::Bounds;
use crate::linux::cgroup::Cgroups;
use crate::linux::layout::{self, DEVICES, Place, SYSTEM_DIRS, SYSTEM_FILES};
use crate::linux::process_tree;
use crate::linux::scratch_dir::{JobDir, Scratch};
use crate::process::{Running, SetUp, Terms};
use crate::profile::{Hold, Profile, Workspace};
use crate::teardown::Remains;
use crate::warm::fork_server::Starter;
use crate::warm::spawn_thread::Spawner;

const NAME: &str = "landlock";

/// Keeps programs in with Landlock.
#[derive(Debug)]
pub struct Landlocked {
    starter: Starter,
    spawner: Arc<Spawner>,
    cgroups: Cgroups,
    has_namespaces: bool,
    is_root: bool,
}

impl Landlocked {
    /// Looks what the kernel gives, and runs a program in it.
    pub async fn open(launcher: Launcher) -> Result<Self, IsolationError> {
        let with = Self::attempt(launcher.clone(), /*has_namespaces*/ true).await;
        match with {
            Ok(opened) => Ok(opened),
            Err(_) => Self::without_namespaces(launcher).await,
        }
    }

    /// The same without name spaces, as on a machine that gives none.
    pub async fn without_namespaces(launcher: Launcher) -> Result<Self, IsolationError> {
        Self::attempt(launcher, /*has_namespaces*/ false).await
    }

    async fn attempt(launcher: Launcher, has_namespaces: bool) -> Result<Self, IsolationError> {
        let unavailable =
            |why: String| IsolationError::Unavailable { mode: IsolationMode::Process, why };
        process_tree::check(IsolationMode::Process)?;
        let spawner = Arc::new(Spawner::open()?);
        let scratch = Scratch::open().map_err(IsolationError::io("no directory for sandboxes"))?;
        let cgroups = Cgroups::find();
        let spaces = if has_namespaces { Spaces::Own } else { Spaces::Shared };
        let (by, groups) = (Arc::clone(&spawner), cgroups.clone());
        let opened = Self {
            starter: Starter::open(launcher, by, scratch, groups, spaces)?,
            spawner,
            cgroups,
            has_namespaces,
            is_root: rustix::process::geteuid().is_root(),
        };
        let job = Job::new("true", [] as [&str; 0], Profile::new(IsolationMode::Process));
        let input = job.input.clone();
        let running = opened.begin(job).await?;
        let ended = running.drive(input, &CancellationToken::new(), |_, _| {}).await;
        match ended {
            Ok(ended) if ended.code == 0 => Ok(opened),
            Ok(ended) => Err(unavailable(format!("`true` ended with {}", ended.code))),
            Err(error) => Err(unavailable(error.to_string())),
        }
    }

    async fn begin(&self, job: Job) -> Result<Running, IsolationError> {
        let taken = self.starter.take(&job.profile.limits).await?;
        let (waiting, room) = taken;
        let dir = &room.dir;
        let tmp = dir.path().join("tmp");
        std::fs::create_dir(&tmp).map_err(IsolationError::io("no directory for a job"))?;
        let place = Place::of(&job, None, &tmp)?;
        let entrance = job.profile.network.entrance(dir.path())?;
        let mut orders = self.orders(&job, &place, dir, &tmp);
        orders.entrance = entrance.as_ref().map(|entrance| entrance.path().to_owned());
        let order = Order {
            work: Work::Landlock(Box::new(orders)),
            line: layout::line(&place, &job),
            env: layout::environment(&job, place.inside.as_deref(), &tmp),
        };
        let started = self.starter.start(waiting, &order, &job);
        let remains = Remains { entrance, ..Remains::of_sandbox(room, Arc::clone(&self.spawner)) };
        let terms = Terms { set_up: SetUp::Told, ..terms(&job, NAME) };
        Running::of_started(started, remains, terms)
    }

    fn orders(&self, job: &Job, place: &Place, dir: &JobDir, tmp: &Path) -> Orders {
        let limits = &job.profile.limits;
        let system = SYSTEM_DIRS.iter().chain(&SYSTEM_FILES).map(PathBuf::from);
        let (mut read, mut write) = (system.collect::<Vec<_>>(), vec![tmp.to_owned()]);
        if let Some(outside) = &place.outside {
            let list = if place.is_writable { &mut write } else { &mut read };
            list.push(outside.clone());
        }
        let counts = !self.cgroups.counts_pids();
        Orders {
            dir: dir.path().to_owned(),
            start: place.dir.clone(),
            read,
            write,
            devices: DEVICES.map(PathBuf::from).to_vec(),
            is_root: self.is_root,
            has_namespaces: self.has_namespaces,
            entrance: None,
            bounds: Bounds::of(limits, self.cgroups.counts_memory()),
            pids: counts.then_some(u64::from(limits.pids)),
        }
    }
}

impl Backend for Landlocked {
    fn name(&self) -> &'static str {
        NAME
    }

    fn mode(&self) -> IsolationMode {
        IsolationMode::Process
    }

    fn holds(&self) -> Vec<Holding> {
        let (groups, spaces) = (&self.cgroups, self.has_namespaces);
        let told = |hold: Hold| match hold {
            Hold::Files => (true, "Landlock: the system read-only, the workspace, nothing else"),
            Hold::Network if spaces => {
                (true, "no sockets, and a network of its own with nothing in it")
            }
            Hold::Network => (true, "no sockets"),
            Hold::AllowList if spaces => (true, "the proxy is the only way out"),
            Hold::AllowList => (false, "the kernel gives no network of its own"),
            Hold::Environment => (true, "a clean environment, no /proc"),
            Hold::Tree if spaces => (true, "a process name space that ends as a whole"),
            Hold::Tree => (true, "a watcher to which every process falls back"),
            Hold::Processes if spaces => (true, "a process name space, no /proc"),
            Hold::Processes => (true, "Landlock scopes, a filter for calls, no /proc"),
            Hold::Kernel => (true, "a filter for calls, no new privileges"),
            Hold::Pids if groups.counts_pids() => (true, "a control group"),
            Hold::Pids if self.is_root => (false, NO_CGROUP),
            Hold::Pids if spaces => (true, "a bound for the user in its name space"),
            Hold::Pids => (true, "a bound for the user, above what that one runs already"),
            Hold::Memory => memory_holding(groups),
            Hold::Cpu => cpu_holding(groups),
            Hold::Tmp => (false, "a private directory on the disk: only each file is bounded"),
        };
        holdings(told)
    }

    fn start(&self, job: Job) -> BoxFuture<'_, Result<Running, IsolationError>> {
        self.begin(job).boxed()
    }

    fn workspace(&self, workspace: &Workspace) -> Option<PathBuf> {
        workspace.dir().map(Path::to_owned)
    }
}
