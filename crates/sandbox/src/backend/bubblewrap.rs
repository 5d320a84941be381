//! `process` by bubblewrap: name spaces, a root file system of its own, a filter for calls into the kernel.
//!
//! A launcher sets the bounds and opens the files that `bwrap` reads by number, then becomes `bwrap`; without one a shell does.
//! The environment of `bwrap` is empty: it runs outside, where a variable of the program could make the loader take in code, and
//! a program can read that of the first process it sees. `bwrap` is told the program's own by a file that nobody else can read.
//! Where jobs of a kind come again, a sandbox is set up before the next one is known: see [`warm`].
//!
//! Invariant: the number of the user outside is ours. So `/proc` can only be read: to the kernel the owner of `/proc/sys` and
//! its like is the root user, whatever that one is called inside.

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

use crate::backend::none::{pipes, terms};
use crate::backend::{Backend, Holding, NO_CGROUP, cpu_holding, holdings, memory_holding};
use crate::command::Job;
use crate::egress::{self, Entrance};
use crate::error::IsolationError;
use crate::launcher::fork_server::Spaces;
use crate::launcher::order::{Order, Work, Wrap};
use crate::launcher::rlimits::Bounds;
use crate::launcher::{Launcher, RELAY, variables};
use crate::limits::WARM_WAITING;
use crate::linux::cgroup::Cgroups;
use crate::linux::layout::{self, DEVICES, Place, SYSTEM_DIRS, WORKSPACE};
use crate::linux::process_tree;
use crate::linux::rootfs::{Root, Roots};
use crate::linux::scratch_dir::Scratch;
use crate::linux::seccomp::{self, Shared, Sockets};
use crate::process::{Running, SetUp, Terms};
use crate::profile::{Hold, Limits, Profile, Workspace};
use crate::teardown::{Remains, STATUS_FILE};
use crate::warm::fork_server::{Room, Starter};
use crate::warm::pool::{Pool, When};
use crate::warm::spawn_thread::Spawner;

const NAME: &str = "bubblewrap";
/// The private directory for temporary files.
const TMP: &str = "/tmp";
/// The user and the group of a program.
const NOBODY: &str = "65534";
/// Where what is ours is in a sandbox: our launcher, and the entrance to the proxy.
const RUN: &str = "/run";
const LAUNCHER_INSIDE: &str = "/run/provost/launcher";
const ENTRANCE_INSIDE: &str = "/run/provost/egress";

/// The file with the filter for calls, for all jobs.
const FILTER_FILE: &str = "filter";
/// The file with the variables of a program, in the directory of its job.
const VARIABLES_FILE: &str = "variables";

/// Inside, where processes are counted for the user that the program is.
const COUNT_SCRIPT: &str =
    "ulimit -u \"$1\" 2>/dev/null || ulimit -p \"$1\" 2>/dev/null || exit 125; shift; exec \"$@\"";
/// Files of `/proc` that nobody inside needs. What only a capability opens is not among them, nor what can only be written to,
/// nor what everybody on the machine may read and tells nothing but numbers.
const PROC_HIDDEN: [&str; 5] = [
    "/proc/keys",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/kallsyms",
    "/proc/latency_stats",
];

/// Keeps programs in with bubblewrap.
#[derive(Debug)]
pub struct Bubblewrap {
    wrapper: Arc<Wrapper>,
    pool: Arc<Pool<Wrapper>>,
}

/// Sets sandboxes up.
#[derive(Debug)]
struct Wrapper {
    bwrap: PathBuf,
    shell: PathBuf,
    launcher: Option<Launcher>,
    starter: Option<Starter>,
    spawner: Arc<Spawner>,
    roots: Roots,
    scratch: Scratch,
    /// What stands around every program.
    system: Vec<String>,
    cgroups: Cgroups,
    is_root: bool,
}

impl Bubblewrap {
    /// Looks for `bwrap` and runs a program in it.
    pub async fn open(launcher: Option<Launcher>) -> Result<Self, IsolationError> {
        let unavailable = |why: &str| IsolationError::Unavailable {
            mode: IsolationMode::Process,
            why: why.to_owned(),
        };
        let bwrap =
            layout::find("bwrap".as_ref()).map_err(|_missing| unavailable("there is no bwrap"))?;
        let shell = layout::find("sh".as_ref())?;
        process_tree::check(IsolationMode::Process)?;
        let scratch = Scratch::open().map_err(IsolationError::io("no directory for sandboxes"))?;
        let filter = seccomp::filter(Sockets::OwnNetwork, Shared::default())?;
        let written = fs::write(scratch.path().join(FILTER_FILE), seccomp::bytes(&filter));
        written.map_err(IsolationError::io("the filter cannot be kept"))?;
        let roots = Roots::open(scratch.clone());
        let roots = roots.map_err(IsolationError::io("the system files cannot be copied"))?;
        let spawner = Arc::new(Spawner::open()?);
        let cgroups = Cgroups::find();
        let starter = launcher.clone().map(|launcher| {
            Starter::open(
                launcher,
                Arc::clone(&spawner),
                scratch.clone(),
                cgroups.clone(),
                Spaces::Shared,
            )
        });
        let starter = starter.transpose()?;
        let mut opened = Wrapper {
            bwrap,
            shell,
            launcher,
            starter,
            spawner,
            scratch,
            roots,
            system: system(),
            cgroups,
            is_root: rustix::process::geteuid().is_root(),
        };
        if let Err(error) = opened.trial().await {
            // A launcher that is none is no reason to have no sandbox: without one it is as strong.
            let Some(_starter) = opened.starter.take() else {
                return Err(unavailable(&error.to_string()));
            };
            opened.trial().await.map_err(|error| unavailable(&error.to_string()))?;
            tracing::warn!(%error, "the launcher does not work: a shell starts sandboxes");
        }
        let wrapper = Arc::new(opened);
        let pool = Arc::new(Pool::new(Arc::clone(&wrapper), WARM_WAITING, When::SecondJob));
        Ok(Self { wrapper, pool })
    }

    async fn begin(&self, job: Job) -> Result<Running, IsolationError> {
        let plan = self.wrapper.plan(&job)?;
        if let Some(shape) = self.wrapper.shape(&job, &plan)?
            && let Some(waiting) = self.pool.take(&shape)
        {
            match self.wrapper.start_in(waiting, &job, &plan) {
                Ok(running) => return Ok(running),
                Err(error) => tracing::debug!(%error, "a sandbox that waited is gone"),
            }
        }
        self.wrapper.begin(job, plan).await
    }
}

/// What is known of a sandbox before it is set up.
struct Plan {
    place: Place,
    root: Arc<Root>,
    /// What stands around the program.
    sandbox: Vec<String>,
}

impl Wrapper {
    async fn trial(&self) -> Result<(), IsolationError> {
        let job = Job::new("true", [] as [&str; 0], Profile::new(IsolationMode::Process));
        let input = job.input.clone();
        let plan = self.plan(&job)?;
        let ended =
            self.begin(job, plan).await?.drive(input, &CancellationToken::new(), |_, _| {}).await?;
        match ended.code {
            0 => Ok(()),
            code => Err(IsolationError::Setup {
                backend: NAME,
                why: format!("`true` ended with {code}"),
            }),
        }
    }

    fn plan(&self, job: &Job) -> Result<Plan, IsolationError> {
        let place = Place::of(job, Some(WORKSPACE), Path::new(TMP))?;
        let root = self.roots.current();
        let root = root.map_err(IsolationError::io("the system files cannot be copied"))?;
        let sandbox = self.sandbox(&place, job, &root)?;
        Ok(Plan { place, root, sandbox })
    }

    async fn begin(&self, job: Job, plan: Plan) -> Result<Running, IsolationError> {
        let Plan { place, root, sandbox } = plan;
        let limits = &job.profile.limits;
        let (waiting, room) = match &self.starter {
            Some(starter) => {
                let (waiting, room) = starter.take(limits).await?;
                (Some((starter, waiting)), room)
            }
            None => (None, Room::make(&self.scratch, &self.cgroups, limits)?),
        };
        let dir = room.dir.path();
        let entrance = job.profile.network.entrance(dir)?;
        let mut line: Vec<OsString> = vec![self.bwrap.clone().into()];
        line.extend(sandbox.into_iter().map(OsString::from));
        if let Some(entrance) = &entrance {
            line.extend(self.ours(Some(entrance)).into_iter().map(OsString::from));
        }
        line.push("--".into());
        line.extend(self.inner(&place, &job, entrance.is_some()));
        line.extend(job.args.iter().cloned());
        let wrap = self.wrap(limits, dir);
        let env = layout::environment(&job, place.inside.as_deref(), Path::new(TMP));
        let started = match waiting {
            Some((starter, waiting)) => {
                let order = Order { work: Work::Wrap(wrap), line, env };
                starter.start(waiting, &order, &job)
            }
            None => {
                let told = dir.join(VARIABLES_FILE);
                let mut command =
                    shell::command(&self.shell, &wrap, &told, &room.cgroup.doors(), &line);
                command.env_clear().current_dir("/");
                pipes(&mut command, &job.input);
                match fs::write(&told, variables(&env)) {
                    Ok(()) => self.spawner.start(command).await,
                    Err(error) => Err(IsolationError::io("no directory for a job")(error)),
                }
            }
        };
        let remains = Remains::of_sandbox(room, Arc::clone(&self.spawner));
        let remains = Remains { root: Some(root), entrance, ..remains };
        let terms = Terms { set_up: SetUp::Told, ..terms(&job, NAME) };
        Running::of_started(started, remains, terms)
    }

    /// How to become `bwrap`.
    fn wrap(&self, limits: &Limits, dir: &Path) -> Wrap {
        Wrap {
            bounds: Bounds::of(limits, self.cgroups.counts_memory()),
            status: dir.join(STATUS_FILE),
            filter: self.scratch.path().join(FILTER_FILE),
        }
    }

    /// What stands around the program.
    fn sandbox(
        &self,
        place: &Place,
        job: &Job,
        root: &Root,
    ) -> Result<Vec<String>, IsolationError> {
        // First of all: everything else is mounted into it, and nothing can be made in it.
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
        if let Some(outside) = &place.outside {
            let kind = if place.is_writable { "--bind" } else { "--ro-bind" };
            let outside = outside.to_str().ok_or_else(|| {
                IsolationError::Job("the path of the workspace is no text".to_owned())
            })?;
            add(&[kind, outside, WORKSPACE]);
        }
        add(&["--chdir", &place.dir.to_string_lossy()]);
        Ok(args)
    }

    /// What is ours in a sandbox: the launcher, and the entrance to the proxy where there is one.
    fn ours(&self, entrance: Option<&Entrance>) -> Vec<String> {
        let Some(launcher) = &self.launcher else { return Vec::new() };
        let shown = |path: &Path| path.to_string_lossy().into_owned();
        let mut args: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| args.extend(words.iter().map(|word| (*word).to_owned()));
        add(&["--tmpfs", RUN]);
        add(&["--ro-bind", &shown(&launcher.program), LAUNCHER_INSIDE]);
        if let Some(entrance) = entrance {
            add(&["--ro-bind", &shown(entrance.path()), ENTRANCE_INSIDE]);
        }
        add(&["--remount-ro", RUN]);
        args
    }

    /// What `bwrap` starts: the program, behind whatever must be done inside first.
    fn inner(&self, place: &Place, job: &Job, has_network: bool) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        if let (true, Some(launcher)) = (has_network, &self.launcher) {
            words.push(LAUNCHER_INSIDE.into());
            words.extend(launcher.args.iter().map(Into::into));
            words.extend([RELAY.into(), egress::PORT.to_string().into(), ENTRANCE_INSIDE.into()]);
        }
        if !self.cgroups.counts_pids() {
            words.extend(["/bin/sh", "-c", COUNT_SCRIPT, "sh"].map(Into::into));
            words.push(job.profile.limits.pids.to_string().into());
        }
        words.push(place.program.clone().into());
        words
    }
}

/// What stands around every program.
fn system() -> Vec<String> {
    let mut args: Vec<String> = Vec::new();
    let mut add = |words: &[&str]| args.extend(words.iter().map(|word| (*word).to_owned()));
    add(&["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]);
    add(&["--uid", NOBODY, "--gid", NOBODY, "--cap-drop", "ALL", "--hostname", "sandbox"]);
    // Those that are links are in the root already.
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

impl Backend for Bubblewrap {
    fn name(&self) -> &'static str {
        NAME
    }

    fn mode(&self) -> IsolationMode {
        IsolationMode::Process
    }

    fn holds(&self) -> Vec<Holding> {
        let groups = &self.wrapper.cgroups;
        let told = |hold: Hold| match hold {
            Hold::Files => (true, "a root of its own, the system read-only"),
            Hold::Network => (true, "a network of its own with nothing in it"),
            Hold::AllowList => match &self.wrapper.launcher {
                Some(_) => (true, "the proxy is the only way out"),
                None => (false, "this program is no launcher, which carries words to the proxy"),
            },
            Hold::Environment => (true, "a clean environment, also of the first process"),
            Hold::Tree => (true, "a process name space that ends as a whole"),
            Hold::Processes => (true, "a process name space and a session of its own"),
            Hold::Kernel => (true, "a filter for calls, no capabilities, no new privileges"),
            Hold::Pids if groups.counts_pids() => (true, "a control group"),
            Hold::Pids if self.wrapper.is_root => (false, NO_CGROUP),
            Hold::Pids => (true, "a bound for the user in its name space"),
            Hold::Memory => memory_holding(groups),
            Hold::Cpu => cpu_holding(groups),
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
