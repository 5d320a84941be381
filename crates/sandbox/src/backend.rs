//! The backends of a program, and which of them a job gets.
//!
//! Invariant: a job runs in the backend of the mode that its profile names, and in no other. One that is missing, or does not
//! hold what the profile insists on, is an error.

pub(crate) mod bubblewrap;
pub(crate) mod container;
pub(crate) mod landlock;
pub(crate) mod none;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::resource::IsolationMode;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::backend::bubblewrap::Bubblewrap;
use crate::backend::landlock::Landlocked;
use crate::backend::none::Bare;
use crate::command::Job;
use crate::error::IsolationError;
use crate::launcher::Launcher;
use crate::limits::JOBS_MAX;
use crate::linux::cgroup::Cgroups;
use crate::process::{Channel, Ended, Running};
use crate::profile::{Hold, Profile, Workspace};

/// One thing that a backend holds or does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// What.
    pub hold: Hold,
    /// Whether.
    pub is_held: bool,
    /// By what, or why not.
    pub how: String,
}

/// What a backend holds, and by what.
fn holdings(told: impl Fn(Hold) -> (bool, &'static str)) -> Vec<Holding> {
    let holding = |hold| {
        let (is_held, how) = told(hold);
        Holding { hold, is_held, how: how.to_owned() }
    };
    Hold::ALL.into_iter().map(holding).collect()
}

/// Why a bound of all processes together cannot be held.
const NO_CGROUP: &str = "no control group can be made here: give one, or start as an ordinary user";

/// The bound of memory, by a control group if there is one.
fn memory_holding(cgroups: &Cgroups) -> (bool, &'static str) {
    match cgroups.counts_memory() {
        true => (true, "a control group"),
        false => (false, "each process by itself: no control group can be made here"),
    }
}

/// The bound of processor time, by a control group if there is one.
fn cpu_holding(cgroups: &Cgroups) -> (bool, &'static str) {
    if cgroups.counts_cpu() { (true, "a control group") } else { (false, NO_CGROUP) }
}

/// Keeps programs in.
pub trait Backend: Send + Sync + 'static {
    /// Its name, such as `bubblewrap`.
    fn name(&self) -> &'static str;

    /// The isolation that it gives.
    fn mode(&self) -> IsolationMode;

    /// What it holds on this machine, and what it does not.
    fn holds(&self) -> Vec<Holding>;

    /// Starts a job.
    fn start(&self, job: Job) -> BoxFuture<'_, Result<Running, IsolationError>>;

    /// Where a program finds the files of its workspace.
    fn workspace(&self, workspace: &Workspace) -> Option<PathBuf>;
}

/// The backends of a program. Cheap to clone.
#[derive(Clone)]
pub struct Backends {
    known: BTreeMap<IsolationMode, Arc<dyn Backend>>,
    missing: BTreeMap<IsolationMode, String>,
    room: Arc<Semaphore>,
}

impl Default for Backends {
    fn default() -> Self {
        let room = Arc::new(Semaphore::new(JOBS_MAX));
        Self { known: BTreeMap::new(), missing: BTreeMap::new(), room }
    }
}

impl Backends {
    /// Looks what works on this machine: nothing is believed, each backend runs a program first.
    ///
    /// Without a launcher there is no Landlock, and no network through a proxy.
    pub async fn find(launcher: Option<Launcher>) -> Self {
        let mut found = Self::default();
        match Bare::open() {
            Ok(bare) => found.add(Arc::new(bare)),
            Err(error) => found.miss(IsolationMode::None, error.to_string()),
        }
        let why_not = match Bubblewrap::open(launcher.clone()).await {
            Ok(backend) => {
                found.add(Arc::new(backend));
                return found;
            }
            Err(error) => error.to_string(),
        };
        let landlocked = match launcher {
            Some(launcher) => Landlocked::open(launcher).await,
            None => Err(IsolationError::Unavailable {
                mode: IsolationMode::Process,
                why: "this program is no launcher for Landlock".to_owned(),
            }),
        };
        match landlocked {
            Ok(backend) => found.add(Arc::new(backend)),
            Err(error) => {
                let why = format!("{why_not}; {error}; install bubblewrap");
                found.miss(IsolationMode::Process, why);
            }
        }
        found
    }

    /// Adds a backend in the place of whichever was there for its mode.
    pub fn add(&mut self, backend: Arc<dyn Backend>) {
        self.missing.remove(&backend.mode());
        self.known.insert(backend.mode(), backend);
    }

    /// Notes why there is no backend for a mode.
    pub fn miss(&mut self, mode: IsolationMode, why: impl Into<String>) {
        self.known.remove(&mode);
        self.missing.insert(mode, why.into());
    }

    /// All backends there are.
    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn Backend>> {
        self.known.values()
    }

    /// The modes there is no backend for, each with the reason.
    pub fn missing(&self) -> impl Iterator<Item = (IsolationMode, &str)> {
        self.missing.iter().map(|(mode, why)| (*mode, why.as_str()))
    }

    /// The backend for a profile. There is no second best.
    pub fn select(&self, profile: &Profile) -> Result<&Arc<dyn Backend>, IsolationError> {
        let mode = profile.mode;
        let unavailable = |why: String| IsolationError::Unavailable { mode, why };
        let Some(backend) = self.known.get(&mode) else {
            let why = self.missing.get(&mode).cloned();
            return Err(unavailable(
                why.unwrap_or_else(|| "no backend is set up for it".to_owned()),
            ));
        };
        if profile.source.is_some() && mode != IsolationMode::Container {
            let name = backend.name();
            return Err(unavailable(format!("{name} has no images: use `container`")));
        }
        let holds = backend.holds();
        for demanded in profile.demanded() {
            match holds.iter().find(|holding| holding.hold == demanded) {
                Some(holding) if holding.is_held => {}
                Some(holding) => {
                    let (name, what) = (backend.name(), demanded.as_str());
                    return Err(unavailable(format!(
                        "{name} cannot hold `{what}`: {}",
                        holding.how
                    )));
                }
                None => {
                    let (name, what) = (backend.name(), demanded.as_str());
                    return Err(unavailable(format!("{name} does not know of `{what}`")));
                }
            }
        }
        Ok(backend)
    }

    /// Starts a job.
    pub async fn start(&self, job: Job) -> Result<Running, IsolationError> {
        self.select(&job.profile)?.start(job).await
    }

    /// Runs a job to its end. Beyond a number of jobs it waits for room first.
    pub async fn run(
        &self,
        job: Job,
        cancel: &CancellationToken,
        each: impl FnMut(Channel, &[u8]),
    ) -> Result<Ended, IsolationError> {
        let _room = self.room.acquire().await;
        let input = job.input.clone();
        self.start(job).await?.drive(input, cancel, each).await
    }
}

impl std::fmt::Debug for Backends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.known.iter().map(|(mode, backend)| (mode.as_str(), backend.name()));
        f.debug_map().entries(names).finish()
    }
}
