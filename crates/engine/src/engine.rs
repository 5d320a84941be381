//! The engine as its users see it: accept, say, answer, cancel, wait.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_agent::Agent;
use provost_core::command::AgentCommand;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{DeliveryOutcome, Fallback, RunStatus};
use provost_core::recovery::{OnUnknown, OutcomeCode};
use provost_core::{ApprovalDecision, ApprovalId, Env, RunId};
use provost_failpoint::failpoint;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::run_event::{self, RunEventRow};
use provost_store::{Hint, Store};
use tokio::sync::Notify;

use crate::agent::{self, AgentConfig, AgentProfile, Profiles};
use crate::approval::{self, Answered};
use crate::attempt::Live;
use crate::attempt::workspace::Workspaces;
use crate::child::ChildLimits;
use crate::deps::EngineDeps;
use crate::error::EngineError;
use crate::live::Tap;
use crate::maintenance::BootGuard;
use crate::maintenance::retention::Retention;
use crate::outbound::delivery::DeliveryAdapter;
use crate::outbound::outbox::Publisher;
use crate::run::cancel::{self, Cancelled};
use crate::run::lifecycle::word;
use crate::submit::{self, Accepted, SubmitRequest};
use crate::worker::lease::Lease;
use crate::worker::session_filter::Focus;

/// Makes agents from their profiles; the program that embeds the engine knows models and tools.
pub trait Agents: Send + Sync + 'static {
    /// The agent of a run.
    fn build(&self, profile: &AgentProfile, lease: &Lease) -> Result<Agent, EngineError>;
}

impl<F> Agents for F
where
    F: Fn(&AgentProfile, &Lease) -> Result<Agent, EngineError> + Send + Sync + 'static,
{
    fn build(&self, profile: &AgentProfile, lease: &Lease) -> Result<Agent, EngineError> {
        self(profile, lease)
    }
}

/// How an engine works; every number has a default.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Which runs its workers take.
    pub pool: String,
    /// The sessions its workers serve; all of them if none are named.
    pub focus: Option<Focus>,
    /// Runs at work at once in this process.
    pub capacity: usize,
    /// How long a lease lasts without a word.
    pub lease: Duration,
    /// How often leases are renewed.
    pub heartbeat: Duration,
    /// How often is looked for work that no hint told of.
    pub poll: Duration,
    /// How long a run may take to stop before it is dropped.
    pub grace: Duration,
    /// What is done about an opaque effect whose outcome is unknown.
    pub on_unknown: OnUnknown,
    /// How many runs may be below others.
    pub children: ChildLimits,
    /// How long one attempt may take, unless its agent says otherwise.
    pub attempt_timeout: Option<Duration>,
    /// How long an attempt may be without any sign of life while no tool runs, unless its agent says otherwise.
    pub silence: Option<Duration>,
    /// How long a person has to decide, if it is not the default.
    pub approval_expiry: Option<Duration>,
    /// What counts when nobody says whether a call may run.
    pub fallback: Fallback,
    /// When a service that crashes again and again starts without its work; for services that are started again by
    /// themselves.
    pub boot_guard: Option<BootGuard>,
    /// How long what is over is kept.
    pub retention: Retention,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            pool: "default".to_owned(),
            focus: None,
            capacity: 64,
            lease: Duration::from_secs(30),
            heartbeat: Duration::from_secs(10),
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(20),
            on_unknown: OnUnknown::default(),
            children: ChildLimits::default(),
            attempt_timeout: None,
            // Beyond what model clients wait for by themselves.
            silence: Some(Duration::from_secs(600)),
            approval_expiry: None,
            fallback: Fallback::default(),
            boot_guard: None,
            retention: Retention::default(),
        }
    }
}

/// Durable tasks and runs on one database. Clones share it.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) agents: Arc<dyn Agents>,
    pub(crate) options: EngineOptions,
    pub(crate) env: Env,
    /// The channels that answers are sent over, by name.
    pub(crate) channels: HashMap<String, Arc<dyn DeliveryAdapter>>,
    pub(crate) publisher: Option<Arc<dyn Publisher>>,
    pub(crate) workspaces: Option<Arc<dyn Workspaces>>,
    /// Where live events go.
    pub(crate) tap: Arc<Tap>,
    /// Notified when a schedule of this process was created or changed.
    pub(crate) schedules_changed: Notify,
    /// The agents of its runs.
    pub(crate) profiles: Profiles,
    live: Mutex<BTreeMap<RunId, Arc<Live>>>,
}

impl Shared {
    pub(crate) fn live(&self) -> MutexGuard<'_, BTreeMap<RunId, Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of the channels that this engine sends over.
    pub(crate) fn channel_names(&self) -> Vec<String> {
        self.channels.keys().cloned().collect()
    }
}

impl Engine {
    /// Builds an engine on a database. It accepts work at once; [`start`](Self::start) starts a worker.
    pub fn new(deps: EngineDeps, options: EngineOptions) -> Self {
        let EngineDeps { store, agents, env, channels, publisher, workspaces, live } = deps;
        let shared = Shared {
            store,
            agents,
            options,
            env,
            channels,
            publisher,
            workspaces,
            tap: Arc::new(Tap::new(live)),
            schedules_changed: Notify::new(),
            profiles: Profiles::default(),
            live: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The database.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Stores an agent's profile as a new revision, unless it is what the newest one says.
    pub async fn put_agent(
        &self,
        namespace: &Namespace,
        name: &str,
        title: Option<&str>,
        config: AgentConfig,
    ) -> Result<AgentProfile, EngineError> {
        let (namespace, name) = (namespace.clone(), name.to_owned());
        let title = title.map(str::to_owned);
        let write = self
            .shared
            .store
            .write(move |tx| agent::put(tx, &namespace, &name, title.as_deref(), &config));
        write.await
    }

    /// Accepts a command. When it returns, nothing can lose it.
    pub async fn accept(
        &self,
        namespace: &Namespace,
        command: AgentCommand,
    ) -> Result<Accepted, EngineError> {
        let store = &self.shared.store;
        let request = Arc::new(SubmitRequest::new(namespace, command, &self.shared.env)?);
        failpoint!("accept.before");
        let submitted = {
            let request = Arc::clone(&request);
            store.write(move |tx| submit::submit_in_tx(tx, &request)).await
        };
        failpoint!("accept.committed");
        let accepted = match submitted {
            Err(EngineError::Work(refusal)) if refusal.is_remembered() => {
                let stored = refusal.clone();
                store.write(move |tx| submit::store_refusal(tx, &request, &stored)).await?;
                return Err(refusal.into());
            }
            submitted => submitted?,
        };
        // A new run reads its message when it starts.
        if accepted.outcome != DeliveryOutcome::Queued {
            self.nudge(accepted.run);
        }
        Ok(accepted)
    }

    /// Answers a question. The first answer counts.
    pub async fn answer(
        &self,
        namespace: &Namespace,
        id: ApprovalId,
        decision: ApprovalDecision,
        by: &str,
    ) -> Result<Answered, EngineError> {
        let (namespace, by) = (namespace.clone(), by.to_owned());
        self.shared
            .store
            .write(move |tx| approval::answer(tx, &namespace, id, &decision, &by))
            .await
    }

    /// Cancels a run, and every run below it.
    pub async fn cancel_run(
        &self,
        namespace: &Namespace,
        id: RunId,
    ) -> Result<Cancelled, EngineError> {
        failpoint!("cancel.before");
        let namespace = namespace.clone();
        let code = OutcomeCode::CancelledByUser;
        let write = self.shared.store.write(move |tx| cancel::cancel_run(tx, &namespace, id, code));
        let cancelled = write.await;
        failpoint!("cancel.committed");
        cancelled
    }

    /// A run as it stands.
    pub async fn run(&self, namespace: &Namespace, id: RunId) -> Result<RunRow, EngineError> {
        let namespace = namespace.clone();
        let found = self
            .shared
            .store
            .read(move |tx| Ok::<_, EngineError>(run::find(tx, namespace.as_str(), id)?));
        found.await?.ok_or_else(|| EngineError::not_found("run", id))
    }

    /// The durable events of a run after a number, in order.
    pub async fn events(
        &self,
        namespace: &Namespace,
        id: RunId,
        after: u64,
        limit: u64,
    ) -> Result<Vec<RunEventRow>, EngineError> {
        self.run(namespace, id).await?;
        self.shared
            .store
            .read(move |tx| Ok::<_, EngineError>(run_event::after(tx, id, after, limit)?))
            .await
    }

    /// Waits until a run has ended, and returns its row.
    pub async fn wait(&self, namespace: &Namespace, id: RunId) -> Result<RunRow, EngineError> {
        let ended = self.shared.store.watch(Hint::Ended(id));
        loop {
            let row = self.run(namespace, id).await?;
            if word::<RunStatus>(&row.status)?.is_terminal() {
                return Ok(row);
            }
            tokio::select! {
                biased;
                () = ended.hinted() => {}
                // A wake-up may be lost, and another process sends none.
                () = tokio::time::sleep(self.shared.options.poll) => {}
            }
        }
    }
}
