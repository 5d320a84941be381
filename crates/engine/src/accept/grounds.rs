//! What the runs of one agent have in common when they are made: what they may do, and where they queue.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_core::work::{ClassKey, ExecPolicy, Namespace, WorkError};
use provost_store::row::agent::{self, AgentRow};
use provost_store::row::exec_class::{self, ExecClassRow};
use provost_store::row::task::TaskRow;
use provost_store::{Turn, Tx};

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
    /// What they may do.
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

/// Agents that were asked before, so that one command after the other need not read the same profile. It is looked whether they
/// are still what they were; once for commands that are taken in right after each other in one transaction.
#[derive(Default)]
pub(crate) struct KnownAgents(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    agents: HashMap<(String, String), (Arc<Known>, u64)>,
    /// The last job that asked for an agent.
    last: Turn,
    /// Rises whenever another job came in between, which may have changed any agent. Those that were looked at in this round
    /// are what they were.
    round: u64,
}

impl Kept {
    /// The agent, if it is kept, and whether it was looked at in this round, which goes on with this job or begins with it.
    fn find(&mut self, turn: Turn, key: &(String, String)) -> Option<(Arc<Known>, bool)> {
        if !turn.follows(self.last) {
            self.round += 1;
        }
        self.last = turn;
        let (known, round) = self.agents.get(key)?;
        Some((Arc::clone(known), *round == self.round))
    }

    /// Keeps an agent that was looked at.
    fn keep(&mut self, key: (String, String), known: &Arc<Known>) {
        if self.agents.len() >= KEPT_MAX && !self.agents.contains_key(&key) {
            self.agents.clear();
        }
        self.agents.insert(key, (Arc::clone(known), self.round));
    }
}

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
        let found = self.kept().find(tx.turn(), &key);
        let known = match found {
            Some((known, true)) => return Ok(known),
            Some((known, false)) if is_current(tx, &key, &known)? => known,
            _ => {
                let row = agent::latest(tx, &key.0, name)?.filter(|row| row.deleted.is_none());
                let row = row.ok_or_else(|| WorkError::not_found("agent", name))?;
                Arc::new(Known::read(tx, namespace, row)?)
            }
        };
        self.kept().keep(key, &known);
        Ok(known)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing that can fail happens under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_current(
    tx: &mut Tx<'_>,
    (namespace, name): &(String, String),
    known: &Known,
) -> Result<bool, EngineError> {
    let revision = (known.profile.revision, known.hash.as_str());
    Ok(agent::is_current(tx, (namespace, name), revision, &known.grounds.class)?)
}
