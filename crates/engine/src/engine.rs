//! [`Engine`]: submits tasks and gives access to the commands for runs, approvals, sessions and the other resources.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use provost_agent::Agent;
use provost_bus::{Topic, Wakeup};
use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::InputOutcome;
use provost_core::recovery::OutcomeCode;
use provost_core::resource::AgentSpec;
use provost_core::{ApprovalDecision, ApprovalId, Env, RunId};
use provost_failpoint::failpoint;
use provost_store::query::explain_facts::LocalFacts;
use provost_store::table::work::run::RunRow;
use provost_store::{Store, query};
use provost_tool::GuardServices;

use crate::agent::{self, AgentRevision, AgentRevisionCache};
use crate::approval::Approvals;
use crate::approval::{self, ApprovalReceipt};
use crate::attempt::RunningAttempt;
use crate::attempt::events::LiveEventPublisher;
use crate::attempt::executor::Executors;
use crate::attempt::workspace::WorkspaceProbe;
use crate::budget::Budgets;
use crate::error::EngineError;
use crate::input::Inputs;
use crate::maintenance::Maintenance;
use crate::options::{EngineDeps, EngineOptions};
use crate::outbound::delivery::Deliveries;
use crate::outbound::delivery::DeliveryAdapter;
use crate::outbound::webhook::Webhooks;
use crate::records::Records;
use crate::run::Runs;
use crate::run::cancel::{self, CancelResult};
use crate::sessions::Sessions;
use crate::submit::execution_class::ExecutionClasses;
use crate::submit::schedule::Schedules;
use crate::submit::{self, SubmitReceipt, SubmitRequest};
use crate::tasks::Tasks;
use crate::token::Tokens;
use crate::worker::lease::Lease;

/// Builds agents from their stored revisions. The embedding program implements it, because it knows the models and
/// tools.
pub trait AgentProvider: Send + Sync + 'static {
    /// Builds the agent of one run attempt from its revision and the resource set of the lease. The engine replaces its
    /// guard services by its own.
    fn build<'a>(
        &'a self,
        revision: &'a AgentRevision,
        lease: &'a Lease,
    ) -> BoxFuture<'a, Result<Agent, EngineError>>;
}

impl<F> AgentProvider for F
where
    F: Fn(&AgentRevision, &Lease) -> Result<Agent, EngineError> + Send + Sync + 'static,
{
    fn build<'a>(
        &'a self,
        revision: &'a AgentRevision,
        lease: &'a Lease,
    ) -> BoxFuture<'a, Result<Agent, EngineError>> {
        std::future::ready(self(revision, lease)).boxed()
    }
}

/// Durable tasks and runs on one database. Clones share all state.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<EngineInner>,
}

/// State that the clones and workers of an engine share.
pub(crate) struct EngineInner {
    pub(crate) store: Store,
    pub(crate) agents: Arc<dyn AgentProvider>,
    /// Services that govern each tool call.
    pub(crate) guard: Arc<GuardServices>,
    pub(crate) options: EngineOptions,
    pub(crate) env: Env,
    /// Delivery channels by the name that a routing uses.
    pub(crate) channels: HashMap<String, Arc<dyn DeliveryAdapter>>,
    pub(crate) workspaces: Option<Arc<dyn WorkspaceProbe>>,
    /// Publishes live events to the bus.
    pub(crate) live_events: Arc<LiveEventPublisher>,
    /// Executors by the kind of run.
    pub(crate) executors: Executors,
    /// Cached revisions of agents.
    pub(crate) agent_revisions: AgentRevisionCache,
    attempts: Mutex<BTreeMap<RunId, Arc<RunningAttempt>>>,
}

impl EngineInner {
    /// Locks the attempts of this process.
    pub(crate) fn attempts(&self) -> MutexGuard<'_, BTreeMap<RunId, Arc<RunningAttempt>>> {
        self.attempts.lock()
    }

    /// Returns the names of the delivery channels of this engine.
    pub(crate) fn channel_names(&self) -> Vec<String> {
        self.channels.keys().cloned().collect()
    }
}

impl Engine {
    /// Creates an engine on a database. It accepts tasks at once; [`start`](Self::start) starts a worker that
    /// executes them.
    pub fn new(deps: EngineDeps, options: EngineOptions) -> Self {
        let EngineDeps { store, agents, guard, env, channels, workspaces } = deps;
        let live_events = Arc::new(LiveEventPublisher::new(Arc::clone(store.bus())));
        let shared = EngineInner {
            store,
            agents,
            guard: Arc::new(guard),
            options,
            env,
            channels,
            workspaces,
            live_events,
            executors: Executors::default(),
            agent_revisions: AgentRevisionCache::default(),
            attempts: Mutex::default(),
        };
        Self { inner: Arc::new(shared) }
    }

    /// Returns the database.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Returns the commands for approvals.
    pub fn approvals(&self) -> Approvals<'_> {
        Approvals { engine: self }
    }

    /// Returns the commands for budgets.
    pub fn budgets(&self) -> Budgets<'_> {
        Budgets { engine: self }
    }

    /// Returns the commands for existing runs.
    pub fn runs(&self) -> Runs<'_> {
        Runs { engine: self }
    }

    /// Returns the commands that send messages to existing tasks and runs.
    pub fn inputs(&self) -> Inputs<'_> {
        Inputs { engine: self }
    }

    /// Returns the commands for sessions.
    pub fn sessions(&self) -> Sessions<'_> {
        Sessions { engine: self }
    }

    /// Returns the commands for deliveries.
    pub fn deliveries(&self) -> Deliveries<'_> {
        Deliveries { engine: self }
    }

    /// Returns the commands for webhooks and the claims of their deliveries.
    pub fn webhooks(&self) -> Webhooks<'_> {
        Webhooks { engine: self }
    }

    /// Returns the commands for schedules, which submit tasks at set times.
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules { engine: self }
    }

    /// Returns the commands for the concurrency targets of execution classes, and for concurrency limits.
    pub fn classes(&self) -> ExecutionClasses<'_> {
        ExecutionClasses { engine: self }
    }

    /// Returns the commands for tasks.
    pub fn tasks(&self) -> Tasks<'_> {
        Tasks { engine: self }
    }

    /// Returns the commands for API tokens.
    pub fn tokens(&self) -> Tokens<'_> {
        Tokens { engine: self }
    }

    /// Returns the sink for audit and usage records.
    pub fn records(&self) -> Records {
        Records::new(self.inner.store.clone())
    }

    /// Returns the commands that do the maintenance work of a worker on demand.
    pub fn maintenance(&self) -> Maintenance<'_> {
        Maintenance { engine: self }
    }

    /// Returns the facts for an explanation that only this process knows.
    pub fn local_facts(&self) -> LocalFacts {
        LocalFacts { grace: self.inner.options.grace, channels: self.inner.channel_names() }
    }

    /// Stores a new revision of an agent, unless it equals the newest revision.
    pub async fn put_agent(
        &self,
        namespace: &Namespace,
        name: &str,
        title: Option<&str>,
        config: AgentSpec,
    ) -> Result<AgentRevision, EngineError> {
        let (namespace, name) = (namespace.clone(), name.to_owned());
        let title = title.map(str::to_owned);
        let write = self
            .inner
            .store
            .write(move |tx| agent::put(tx, &namespace, &name, title.as_deref(), &config));
        write.await
    }

    /// Submits a task. When it returns, the task is committed. A repeated idempotency key returns the stored response
    /// or rejection.
    pub async fn submit(
        &self,
        namespace: &Namespace,
        command: TaskRequest,
    ) -> Result<SubmitReceipt, EngineError> {
        let store = &self.inner.store;
        let request = Arc::new(SubmitRequest::new(namespace, command, self.inner.env.now())?);
        failpoint!("accept.before");
        let submitted = {
            let request = Arc::clone(&request);
            store.write(move |tx| submit::submit_in_tx(tx, &request)).await
        };
        failpoint!("accept.committed");
        let accepted = match submitted {
            Err(EngineError::Request(refusal)) if refusal.is_cacheable() => {
                let stored = refusal.clone();
                store.write(move |tx| submit::store_rejection(tx, &request, &stored)).await?;
                return Err(refusal.into());
            }
            submitted => submitted?,
        };
        // A new run reads its message when it starts; only an active run needs a notification.
        if accepted.outcome != InputOutcome::Queued {
            self.notify_input(accepted.run);
        }
        Ok(accepted)
    }
}

impl Approvals<'_> {
    /// Decides an approval, or votes on it if several approvers are required. A decision after the first changes
    /// nothing, and the receipt says so.
    pub async fn answer(
        self,
        namespace: &Namespace,
        id: ApprovalId,
        decision: ApprovalDecision,
        by: &str,
    ) -> Result<ApprovalReceipt, EngineError> {
        let (namespace, by) = (namespace.clone(), by.to_owned());
        self.engine
            .inner
            .store
            .write(move |tx| approval::answer_decision(tx, &namespace, id, &decision, &by))
            .await
    }
}

impl Runs<'_> {
    /// Cancels a run and all its descendants. An attempt that a worker executes is requested to stop and may outlive
    /// this call.
    pub async fn cancel(
        self,
        namespace: &Namespace,
        id: RunId,
    ) -> Result<CancelResult, EngineError> {
        failpoint!("cancel.before");
        let namespace = namespace.clone();
        let code = OutcomeCode::CancelledByUser;
        let write =
            self.engine.inner.store.write(move |tx| cancel::cancel_run(tx, &namespace, id, code));
        let cancelled = write.await;
        failpoint!("cancel.committed");
        cancelled
    }

    /// Waits until a run has ended, and returns its row. Fails if the namespace has no such run.
    pub async fn wait(self, namespace: &Namespace, id: RunId) -> Result<RunRow, EngineError> {
        let ended = Topic::Wakeup(Wakeup::Ended(id));
        let mut ended = self.engine.store().bus().subscribe(ended);
        loop {
            let row = query::run::get(self.engine.store(), namespace, id).await?;
            if row.status.is_terminal() {
                return Ok(row);
            }
            // A wakeup can be lost, and another process sends none.
            ended.woken_or_after(self.engine.inner.options.poll, |_| true).await;
        }
    }
}
