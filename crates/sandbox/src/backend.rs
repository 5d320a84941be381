//! Sandbox backends and the registry that selects one for a profile.
//!
//! Invariant: a command runs only in the backend of the mode that its profile names. If that backend is missing or does
//! not enforce a required guarantee, the call fails.

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
use crate::backend::landlock::LandlockBackend;
use crate::backend::none::NoSandbox;
use crate::command::SandboxCommand;
use crate::error::IsolationError;
use crate::launcher::Launcher;
use crate::limits::JOBS_MAX;
use crate::linux::cgroup::Cgroups;
use crate::process::{ExitInfo, SandboxedProcess, StdStream};
use crate::profile::{Guarantee, IsolationProfile, WorkspaceMount};

/// Availability of one guarantee in one backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuaranteeStatus {
    /// The guarantee.
    pub guarantee: Guarantee,
    /// True if the backend enforces the guarantee.
    pub is_enforced: bool,
    /// Mechanism that enforces the guarantee, or the reason why it is not enforced.
    pub mechanism: String,
}

/// Returns the status of every guarantee, in the order of [`Guarantee::ALL`].
fn guarantee_statuses(
    status_of: impl Fn(Guarantee) -> (bool, &'static str),
) -> Vec<GuaranteeStatus> {
    let status = |guarantee| {
        let (is_enforced, mechanism) = status_of(guarantee);
        GuaranteeStatus { guarantee, is_enforced, mechanism: mechanism.to_owned() }
    };
    Guarantee::ALL.into_iter().map(status).collect()
}

/// Reason why a limit on all processes of a job cannot be enforced.
const NO_CGROUP: &str =
    "no control group can be created: delegate one, or start as an unprivileged user";

/// Returns the status of the memory limit. A control group enforces it if one is available.
fn memory_status(cgroups: &Cgroups) -> (bool, &'static str) {
    match cgroups.counts_memory() {
        true => (true, "a control group"),
        false => (false, "only a limit per process: no control group can be created"),
    }
}

/// Returns the status of the processor limit. A control group enforces it if one is available.
fn cpu_status(cgroups: &Cgroups) -> (bool, &'static str) {
    if cgroups.counts_cpu() { (true, "a control group") } else { (false, NO_CGROUP) }
}

/// An isolation mechanism that runs commands.
pub trait SandboxBackend: Send + Sync + 'static {
    /// Returns the name of the backend, such as `bubblewrap`.
    fn name(&self) -> &'static str;

    /// Returns the isolation mode that the backend implements.
    fn mode(&self) -> IsolationMode;

    /// Returns the status of every guarantee on this machine.
    fn guarantees(&self) -> Vec<GuaranteeStatus>;

    /// Starts a command in a new or warm sandbox and returns without waiting for its end.
    fn start(&self, job: SandboxCommand)
    -> BoxFuture<'_, Result<SandboxedProcess, IsolationError>>;

    /// Returns the path of the workspace inside the sandbox, or `None` if there is no workspace.
    fn workspace(&self, workspace: &WorkspaceMount) -> Option<PathBuf>;
}

/// The available backends, at most one per isolation mode. Clones share the limit on concurrent commands.
#[derive(Clone)]
pub struct SandboxRegistry {
    backends: BTreeMap<IsolationMode, Arc<dyn SandboxBackend>>,
    missing: BTreeMap<IsolationMode, String>,
    slots: Arc<Semaphore>,
}

impl Default for SandboxRegistry {
    fn default() -> Self {
        let slots = Arc::new(Semaphore::new(JOBS_MAX));
        Self { backends: BTreeMap::new(), missing: BTreeMap::new(), slots }
    }
}

impl SandboxRegistry {
    /// Opens the backend for mode `none`, and for mode `process` bubblewrap or else Landlock. A backend must run a
    /// test command before it counts as available; otherwise the reason is recorded. Does not open the container
    /// backend, which needs options.
    ///
    /// Without a launcher, neither Landlock nor network access through the proxy is available.
    pub async fn detect(launcher: Option<Launcher>) -> Self {
        let mut registry = Self::default();
        match NoSandbox::open() {
            Ok(bare) => registry.add(Arc::new(bare)),
            Err(error) => registry.mark_unavailable(IsolationMode::None, error.to_string()),
        }
        let bwrap_error = match Bubblewrap::open(launcher.clone()).await {
            Ok(backend) => {
                registry.add(Arc::new(backend));
                return registry;
            }
            Err(error) => error.to_string(),
        };
        let landlocked = match launcher {
            Some(launcher) => LandlockBackend::open(launcher).await,
            None => Err(IsolationError::Unavailable {
                mode: IsolationMode::Process,
                reason: "this program cannot act as the launcher that Landlock needs".to_owned(),
            }),
        };
        match landlocked {
            Ok(backend) => registry.add(Arc::new(backend)),
            Err(error) => {
                let reason = format!("{bwrap_error}; {error}; install bubblewrap");
                registry.mark_unavailable(IsolationMode::Process, reason);
            }
        }
        registry
    }

    /// Adds a backend. It replaces the current backend of its mode.
    pub fn add(&mut self, backend: Arc<dyn SandboxBackend>) {
        self.missing.remove(&backend.mode());
        self.backends.insert(backend.mode(), backend);
    }

    /// Records why a mode has no backend, and removes its backend if there is one.
    pub fn mark_unavailable(&mut self, mode: IsolationMode, reason: impl Into<String>) {
        self.backends.remove(&mode);
        self.missing.insert(mode, reason.into());
    }

    /// Returns the available backends.
    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn SandboxBackend>> {
        self.backends.values()
    }

    /// Returns the modes without a backend, each with the reason.
    pub fn missing(&self) -> impl Iterator<Item = (IsolationMode, &str)> {
        self.missing.iter().map(|(mode, reason)| (*mode, reason.as_str()))
    }

    /// Returns the backend of the profile's mode. Fails if the mode has no backend, or if its backend does not enforce
    /// every required guarantee. There is no fallback to another mode.
    pub fn select(
        &self,
        profile: &IsolationProfile,
    ) -> Result<&Arc<dyn SandboxBackend>, IsolationError> {
        let mode = profile.mode;
        let unavailable = |reason: String| IsolationError::Unavailable { mode, reason };
        let Some(backend) = self.backends.get(&mode) else {
            let reason = self.missing.get(&mode).cloned();
            return Err(unavailable(
                reason.unwrap_or_else(|| "no backend is configured".to_owned()),
            ));
        };
        if profile.source.is_some() && mode != IsolationMode::Container {
            let name = backend.name();
            return Err(unavailable(format!("{name} does not support images: use `container`")));
        }
        let statuses = backend.guarantees();
        for required in profile.all_required() {
            match statuses.iter().find(|status| status.guarantee == required) {
                Some(status) if status.is_enforced => {}
                Some(status) => {
                    let (name, what) = (backend.name(), required.as_str());
                    return Err(unavailable(format!(
                        "{name} does not enforce `{what}`: {}",
                        status.mechanism
                    )));
                }
                None => {
                    let (name, what) = (backend.name(), required.as_str());
                    return Err(unavailable(format!(
                        "{name} does not know the guarantee `{what}`"
                    )));
                }
            }
        }
        Ok(backend)
    }

    /// Starts a command in the backend that [`select`](Self::select) returns. Does not wait for its end, and does not
    /// count against [`JOBS_MAX`].
    pub async fn start(&self, job: SandboxCommand) -> Result<SandboxedProcess, IsolationError> {
        self.select(&job.profile)?.start(job).await
    }

    /// Runs a command until it exits, is cancelled or exceeds a limit. Waits for a free slot if [`JOBS_MAX`] commands
    /// are running.
    pub async fn run(
        &self,
        job: SandboxCommand,
        cancel: &CancellationToken,
        on_output: impl FnMut(StdStream, &[u8]),
    ) -> Result<ExitInfo, IsolationError> {
        let _slot = self.slots.acquire().await;
        let input = job.input.clone();
        self.start(job).await?.wait_with_output(input, cancel, on_output).await
    }
}

impl std::fmt::Debug for SandboxRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.backends.iter().map(|(mode, backend)| (mode.as_str(), backend.name()));
        f.debug_map().entries(names).finish()
    }
}
