//! Assignment of new runs to execution classes.

use std::time::Duration;

use provost_core::execution_policy::ExecutionPolicy;
use provost_core::id::name::Namespace;
use provost_core::resource::AgentSpec;
use provost_core::scheduling::{ClassHealth, ExecutionClassKey};
use provost_store::Tx;
use provost_store::table::governance::{agent, resource_set};
use provost_store::table::scheduling::execution_class::{self, ExecutionClassRow};
use provost_store::table::work::task::TaskRow;

use crate::agent::AgentRevision;
use crate::error::EngineError;
use provost_core::scheduling::CLASS_CONCURRENCY_DEFAULT;

/// Execution class and policy of a run.
#[derive(Debug, Clone)]
pub(crate) struct ClassAssignment {
    /// Key of the class.
    pub(crate) class: String,
    /// Worker pool that serves the class.
    pub(crate) pool: String,
    /// Policy of the run, as JSON.
    pub(crate) policy: String,
    /// Queue timeout of runs whose request sets none.
    pub(crate) queue_timeout: Option<Duration>,
    /// Resource set of the agent, or else the current one. A child uses that of its parent.
    pub(crate) resource_set: Option<String>,
}

/// Values that identify an execution class.
pub(crate) struct ClassParts<'a> {
    pub(crate) namespace: &'a Namespace,
    pub(crate) agent: &'a str,
    pub(crate) lane: Option<&'a str>,
    pub(crate) policy: &'a ExecutionPolicy,
}

impl ClassAssignment {
    /// Assigns a run of an agent. Creates the class if it does not exist.
    pub(crate) fn new(
        tx: &mut Tx<'_>,
        namespace: &Namespace,
        revision: &AgentRevision,
        lane: Option<&str>,
        policy: &ExecutionPolicy,
    ) -> Result<Self, EngineError> {
        let spec = &revision.config;
        let class = ClassParts { namespace, agent: &revision.name, lane, policy };
        Self::in_class(tx, &class, Some(spec))
    }

    /// Returns the assignment of a follow-up run of a task in this lane. Creates the class if it does not exist.
    pub(crate) fn of_task(
        tx: &mut Tx<'_>,
        task: &TaskRow,
        lane: Option<&str>,
        policy: &ExecutionPolicy,
    ) -> Result<Self, EngineError> {
        let namespace = task.namespace()?;
        let row = agent::get(tx, &task.namespace, &task.agent, task.agent_revision)?;
        let revision = row.map(AgentRevision::from_row).transpose()?;
        let spec = revision.as_ref().map(|revision| &revision.config);
        let class = ClassParts { namespace: &namespace, agent: &task.agent, lane, policy };
        Self::in_class(tx, &class, spec)
    }

    /// Returns the assignment to a class. Creates the class if it does not exist.
    fn in_class(
        tx: &mut Tx<'_>,
        class: &ClassParts<'_>,
        spec: Option<&AgentSpec>,
    ) -> Result<Self, EngineError> {
        let ClassParts { namespace, agent, lane, policy } = *class;
        let class = ExecutionClassRow {
            key: ExecutionClassKey::new(namespace, Some(agent), lane, policy).as_str().to_owned(),
            namespace: namespace.to_string(),
            agent: Some(agent.to_owned()),
            lane: lane.map(str::to_owned),
            pool: "default".to_owned(),
            max_running: CLASS_CONCURRENCY_DEFAULT,
            running: 0,
            health: ClassHealth::Healthy,
            failures: "[]".to_owned(),
            probe_at: None,
            last_served: 0,
            updated: tx.now(),
        };
        let class = execution_class::ensure(tx, &class)?;
        let policy = serde_json::to_string(policy)?;
        let queue_timeout = spec.and_then(|spec| spec.timeouts.queue());
        let resource_set = match spec.and_then(|spec| spec.resource_set.clone()) {
            Some(own) => Some(own),
            None => resource_set::newest(tx)?.map(|newest| newest.hash),
        };
        Ok(Self { class: class.key, pool: class.pool, policy, queue_timeout, resource_set })
    }
}
