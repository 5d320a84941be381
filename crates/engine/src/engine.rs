//! The engine as its users see it: accept, say, answer, cancel, wait.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_agent::Agent;
use provost_bus::{Topic, Wakeup};
use provost_core::command::AgentCommand;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{DeliveryOutcome, RunStatus};
use provost_core::recovery::OutcomeCode;
use provost_core::{ApprovalDecision, ApprovalId, Env, RunId};
use provost_failpoint::failpoint;
use provost_store::query::explain_facts::LocalFacts;
use provost_store::table::work::run::RunRow;
use provost_store::{Store, query};
use tokio::sync::Notify;

use crate::agent::{self, AgentConfig, AgentProfile, Profiles};
use crate::approval::Approvals;
use crate::approval::{self, Answered};
use crate::attempt::Live;
use crate::attempt::executor::Executors;
use crate::attempt::live_events::Tap;
use crate::attempt::workspace::Workspaces;
use crate::budget::Budgets;
use crate::error::EngineError;
use crate::input::Inputs;
use crate::maintenance::Maintenance;
use crate::options::{EngineDeps, EngineOptions};
use crate::outbound::delivery::Deliveries;
use crate::outbound::delivery::DeliveryAdapter;
use crate::outbound::webhook::Webhooks;
use crate::queue::class::ExecutionClasses;
use crate::run::Runs;
use crate::run::cancel::{self, Cancelled};
use crate::run::lifecycle::word;
use crate::sessions::Sessions;
use crate::submit::schedule::Schedules;
use crate::submit::{self, Accepted, SubmitRequest};
use crate::tasks::Tasks;
use crate::token::Tokens;
use crate::worker::lease::Lease;

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
    pub(crate) workspaces: Option<Arc<dyn Workspaces>>,
    /// Where live events go.
    pub(crate) tap: Arc<Tap>,
    /// Notified when a schedule of this process was created or changed.
    pub(crate) schedules_changed: Notify,
    /// Executes runs, by kind.
    pub(crate) executors: Executors,
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
        let EngineDeps { store, agents, env, channels, workspaces } = deps;
        let tap = Arc::new(Tap::new(Arc::clone(store.bus())));
        let shared = Shared {
            store,
            agents,
            options,
            env,
            channels,
            workspaces,
            tap,
            schedules_changed: Notify::new(),
            executors: Executors::default(),
            profiles: Profiles::default(),
            live: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The database.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Decisions about approvals.
    pub fn approvals(&self) -> Approvals<'_> {
        Approvals { engine: self }
    }

    /// Budgets and their ledgers.
    pub fn budgets(&self) -> Budgets<'_> {
        Budgets { engine: self }
    }

    /// Commands to runs that exist.
    pub fn runs(&self) -> Runs<'_> {
        Runs { engine: self }
    }

    /// Messages to tasks and runs that exist.
    pub fn inputs(&self) -> Inputs<'_> {
        Inputs { engine: self }
    }

    /// Commands to sessions.
    pub fn sessions(&self) -> Sessions<'_> {
        Sessions { engine: self }
    }

    /// Commands to deliveries.
    pub fn deliveries(&self) -> Deliveries<'_> {
        Deliveries { engine: self }
    }

    /// Webhooks, and the claims of their senders.
    pub fn webhooks(&self) -> Webhooks<'_> {
        Webhooks { engine: self }
    }

    /// Schedules that submit tasks.
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules { engine: self }
    }

    /// Targets of execution classes and concurrency limits.
    pub fn classes(&self) -> ExecutionClasses<'_> {
        ExecutionClasses { engine: self }
    }

    /// Commands to tasks.
    pub fn tasks(&self) -> Tasks<'_> {
        Tasks { engine: self }
    }

    /// API tokens.
    pub fn tokens(&self) -> Tokens<'_> {
        Tokens { engine: self }
    }

    /// Background work that a worker does by itself, on demand.
    pub fn maintenance(&self) -> Maintenance<'_> {
        Maintenance { engine: self }
    }

    /// The facts for an explanation that only this process knows.
    pub fn local_facts(&self) -> LocalFacts {
        LocalFacts { grace: self.shared.options.grace, channels: self.shared.channel_names() }
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
    pub async fn submit(
        &self,
        namespace: &Namespace,
        command: AgentCommand,
    ) -> Result<Accepted, EngineError> {
        let store = &self.shared.store;
        let request = Arc::new(SubmitRequest::new(namespace, command, self.shared.env.now())?);
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
}

impl Approvals<'_> {
    /// Answers a question. The first answer counts.
    pub async fn answer(
        self,
        namespace: &Namespace,
        id: ApprovalId,
        decision: ApprovalDecision,
        by: &str,
    ) -> Result<Answered, EngineError> {
        let (namespace, by) = (namespace.clone(), by.to_owned());
        self.engine
            .shared
            .store
            .write(move |tx| approval::answer(tx, &namespace, id, &decision, &by))
            .await
    }
}

impl Runs<'_> {
    /// Cancels a run, and every run below it.
    pub async fn cancel(self, namespace: &Namespace, id: RunId) -> Result<Cancelled, EngineError> {
        failpoint!("cancel.before");
        let namespace = namespace.clone();
        let code = OutcomeCode::CancelledByUser;
        let write =
            self.engine.shared.store.write(move |tx| cancel::cancel_run(tx, &namespace, id, code));
        let cancelled = write.await;
        failpoint!("cancel.committed");
        cancelled
    }

    /// Waits until a run has ended, and returns its row.
    pub async fn wait(self, namespace: &Namespace, id: RunId) -> Result<RunRow, EngineError> {
        let ended = Topic::Wakeup(Wakeup::Ended(id));
        let mut ended = self.engine.store().bus().subscribe(ended);
        loop {
            let row = query::run::get(self.engine.store(), namespace, id).await?;
            if word::<RunStatus>(&row.status)?.is_terminal() {
                return Ok(row);
            }
            // A wake-up may be lost, and another process sends none.
            ended.woken_or_after(self.engine.shared.options.poll, |_| true).await;
        }
    }
}
