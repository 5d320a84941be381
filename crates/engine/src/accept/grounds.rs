//! What the runs of one agent have in common when they are made: what they may do, and where they queue.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use provost_core::work::{ClassKey, ExecPolicy, Namespace, WorkError};
use provost_store::Tx;
use provost_store::row::agent::{self, AgentRow};
use provost_store::row::exec_class::{self, ExecClassRow};
use provost_store::row::task::TaskRow;

use super::CLASS_DESIRED_DEFAULT;
use crate::agent::{AgentConfig, AgentProfile, DEFAULT_AGENT};
use crate::clock::Clocks;
use crate::error::EngineError;

/// Agents that are kept; then it starts anew.
const KEPT_MAX: usize = 256;

/// What runs stand on that share an agent, a lane and a policy.
#[derive(Debug, Clone)]
pub(crate) struct Grounds {
    /// The key of their class.
    pub(super) class: String,
    /// The workers that serve it.
    pub(super) pool: String,
    /// What they may do, as JSON.
    pub(super) policy: String,
    /// How long one may wait for a worker, if its command does not say.
    pub(super) patience: Option<Duration>,
}

impl Grounds {
    /// Finds the class, or makes it.
    pub(crate) fn new(
        tx: &mut Tx<'_>,
        namespace: &Namespace,
        profile: &AgentProfile,
        lane: Option<&str>,
        policy: &ExecPolicy,
    ) -> Result<Self, EngineError> {
        let patience = patience(&profile.config)?;
        Self::in_class(tx, (namespace, &profile.name), lane, policy, patience)
    }

    /// Of a further run of a task.
    pub(crate) fn of_task(
        tx: &mut Tx<'_>,
        task: &TaskRow,
        lane: Option<&str>,
        policy: &ExecPolicy,
    ) -> Result<Self, EngineError> {
        let namespace: Namespace = crate::state::word(&task.namespace)?;
        let row = agent::get(tx, &task.namespace, &task.agent, task.agent_revision)?;
        let profile = row.map(AgentProfile::read).transpose()?;
        let patience = profile.map(|profile| patience(&profile.config)).transpose()?.flatten();
        Self::in_class(tx, (&namespace, &task.agent), lane, policy, patience)
    }

    fn in_class(
        tx: &mut Tx<'_>,
        (namespace, agent): (&Namespace, &str),
        lane: Option<&str>,
        policy: &ExecPolicy,
        patience: Option<Duration>,
    ) -> Result<Self, EngineError> {
        let class = ExecClassRow {
            key: ClassKey::new(namespace, Some(agent), lane, policy).as_str().to_owned(),
            namespace: namespace.to_string(),
            agent: Some(agent.to_owned()),
            lane: lane.map(str::to_owned),
            pool: "default".to_owned(),
            desired: CLASS_DESIRED_DEFAULT,
            running: 0,
            health: "healthy".to_owned(),
            failures: "[]".to_owned(),
            probe_at: None,
            turn: 0,
            updated: tx.now(),
        };
        let class = exec_class::ensure(tx, &class)?;
        let policy = serde_json::to_string(policy)?;
        Ok(Self { class: class.key, pool: class.pool, policy, patience })
    }
}

/// How long an agent's runs may wait for a worker.
fn patience(config: &AgentConfig) -> Result<Option<Duration>, EngineError> {
    Ok(Clocks::of(config)?.queue())
}

/// An agent as it is now, and what those of its runs stand on whose command says nothing about that.
pub(crate) struct Known {
    hash: String,
    pub(crate) profile: AgentProfile,
    pub(crate) grounds: Grounds,
}

impl Known {
    pub(crate) fn read(
        tx: &mut Tx<'_>,
        namespace: &Namespace,
        row: AgentRow,
    ) -> Result<Self, EngineError> {
        let hash = row.hash.clone();
        let profile = AgentProfile::read(row)?;
        let policy = profile.policy(&[], None)?;
        let grounds = Grounds::new(tx, namespace, &profile, None, &policy)?;
        Ok(Self { hash, profile, grounds })
    }
}

/// Agents that were asked before, so that one command after the other need not read the same profile. Each time it is looked
/// whether they are still what they were.
#[derive(Default)]
pub(crate) struct KnownAgents(Mutex<HashMap<(String, String), Arc<Known>>>);

impl KnownAgents {
    /// The agent as it is now.
    pub(crate) fn get(
        &self,
        tx: &mut Tx<'_>,
        namespace: &Namespace,
        name: Option<&str>,
    ) -> Result<Arc<Known>, EngineError> {
        let name = name.unwrap_or(DEFAULT_AGENT);
        let key = (namespace.to_string(), name.to_owned());
        let kept = self.kept().get(&key).cloned();
        if let Some(known) = kept
            && agent::is_current(
                tx,
                (&key.0, name),
                (known.profile.revision, &known.hash),
                &known.grounds.class,
            )?
        {
            return Ok(known);
        }
        let row = agent::latest(tx, &key.0, name)?.filter(|row| row.deleted.is_none());
        let row = row.ok_or_else(|| WorkError::not_found("agent", name))?;
        let known = Arc::new(Known::read(tx, namespace, row)?);
        let mut kept = self.kept();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&known));
        Ok(known)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<(String, String), Arc<Known>>> {
        // Nothing that can fail happens under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
