//! Agent profiles: name, configuration and execution policy. Each change creates a revision, and a run keeps the
//! revision it was
//! submitted with.

mod config;
mod known;

use provost_core::execution_policy::{
    CommandPolicy, ExecutionPolicy, ExecutionPolicyPatch, SandboxCapabilities,
};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RequestError;
use provost_store::Tx;
use provost_store::table::governance::agent::{self, AgentRow};
use serde_json::{Map, Value};

pub use self::config::{AgentConfig, RUNNER};
pub(crate) use self::known::{ProfileKey, Profiles};
use crate::attempt::timeouts::AgentTimeouts;
use crate::engine::Engine;
use crate::error::EngineError;
use provost_store::query::page::{PAGE_MAX, Page};

/// The agent of commands that name none.
pub const DEFAULT_AGENT: &str = "default";

/// One revision of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentProfile {
    /// Its name, unique in its namespace.
    pub name: String,
    /// Which revision.
    pub revision: u64,
    /// A name for people.
    pub title: Option<String>,
    /// How it is configured.
    pub config: AgentConfig,
}

/// What changes about an agent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentChange {
    /// Another name for people, or none.
    pub title: Option<Option<String>>,
    /// What changes in its configuration: maps are merged, `null` takes a key away, the rest stays.
    pub config: Map<String, Value>,
    /// The revision that the caller has seen; refused if it is another one by now.
    pub revision: Option<u64>,
}

impl From<Map<String, Value>> for AgentChange {
    fn from(config: Map<String, Value>) -> Self {
        Self { config, ..Self::default() }
    }
}

impl AgentProfile {
    pub(crate) fn read(row: AgentRow) -> Result<Self, EngineError> {
        let AgentRow { name, revision, title, config, .. } = row;
        Ok(Self { name, revision, title, config: serde_json::from_str(&config)? })
    }

    /// The policy of a run: the agent's, then only ever tighter, by each layer of calls and by the run above it.
    pub(crate) fn policy(
        &self,
        calls: &[Option<&ExecutionPolicyPatch>],
        parent: Option<&ExecutionPolicy>,
    ) -> Result<ExecutionPolicy, EngineError> {
        self.config.policy.validate()?;
        let nothing = ExecutionPolicyPatch::default();
        let ceiling = ExecutionPolicy::unrestricted();
        // An agent that does not speak of commands runs none: there is no sandbox that it could have meant.
        let security = self.config.policy.security.or(Some(CommandPolicy::Deny));
        let agent = ExecutionPolicyPatch { security, ..self.config.policy.clone() };
        let mut policy = ExecutionPolicy::effective(&ceiling, &agent, &nothing, &nothing);
        for call in calls.iter().flatten() {
            call.validate()?;
            policy = policy.restricted_by(call);
        }
        if let Some(parent) = parent {
            policy = policy.intersect(parent);
        }
        policy.validate()?;
        policy.check_supported(&SandboxCapabilities::default())?;
        Ok(policy)
    }
}

impl Engine {
    /// Makes an agent; refused if there is one of that name.
    pub async fn create_agent(
        &self,
        namespace: &Namespace,
        name: &str,
        title: Option<&str>,
        config: AgentConfig,
    ) -> Result<AgentProfile, EngineError> {
        let (namespace, name) = (namespace.clone(), name.to_owned());
        let title = title.map(str::to_owned);
        let write = self.inner.store.write(move |tx| {
            let known = agent::latest(tx, namespace.as_str(), &name)?;
            if known.is_some_and(|row| row.deleted.is_none()) {
                return Err(RequestError::already_exists("agent", &name).into());
            }
            put(tx, &namespace, &name, title.as_deref(), &config)
        });
        write.await
    }

    /// An agent as it is now.
    pub async fn agent(
        &self,
        namespace: &Namespace,
        name: &str,
    ) -> Result<AgentProfile, EngineError> {
        let (namespace, name) = (namespace.clone(), name.to_owned());
        self.inner.store.read(move |tx| resolve(tx, &namespace, Some(&name))).await
    }

    /// The agents of a namespace by name, after the name `after`.
    pub async fn agents(
        &self,
        namespace: &Namespace,
        after: Option<&str>,
        limit: u64,
    ) -> Result<Page<AgentProfile, String>, EngineError> {
        let (namespace, after) = (namespace.clone(), after.unwrap_or_default().to_owned());
        let limit = limit.clamp(1, PAGE_MAX);
        let rows = self.inner.store.read(move |tx| {
            Ok::<_, EngineError>(agent::list(tx, namespace.as_str(), &after, limit)?)
        });
        let items: Result<Vec<_>, _> = rows.await?.into_iter().map(AgentProfile::read).collect();
        Ok(Page::new(items?, limit, |profile| profile.name.clone()))
    }

    /// Changes an agent. Runs that were accepted before keep what they were accepted with.
    pub async fn update_agent(
        &self,
        namespace: &Namespace,
        name: &str,
        change: impl Into<AgentChange>,
    ) -> Result<AgentProfile, EngineError> {
        let (namespace, name, change) = (namespace.clone(), name.to_owned(), change.into());
        let write = self.inner.store.write(move |tx| {
            let known = resolve(tx, &namespace, Some(&name))?;
            if change.revision.is_some_and(|seen| seen != known.revision) {
                let (id, current) = (name.clone(), known.revision);
                return Err(RequestError::RevisionConflict { what: "agent", id, current }.into());
            }
            let config = known.config.merged(&change.config)?;
            let title = change.title.as_ref().unwrap_or(&known.title);
            put(tx, &namespace, &name, title.as_deref(), &config)
        });
        write.await
    }

    /// Deletes an agent. Its tasks stay, and runs that were accepted go on with what they were accepted with.
    pub async fn delete_agent(&self, namespace: &Namespace, name: &str) -> Result<(), EngineError> {
        let (namespace, name) = (namespace.clone(), name.to_owned());
        let write =
            self.inner.store.write(move |tx| match agent::delete(tx, namespace.as_str(), &name)? {
                true => Ok(()),
                false => Err(EngineError::not_found("agent", &name)),
            });
        write.await
    }
}

/// The newest revision of an agent that is not deleted.
pub(crate) fn resolve(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    name: Option<&str>,
) -> Result<AgentProfile, EngineError> {
    let name = name.unwrap_or(DEFAULT_AGENT);
    let row = agent::latest(tx, namespace.as_str(), name)?.filter(|row| row.deleted.is_none());
    AgentProfile::read(row.ok_or_else(|| RequestError::not_found("agent", name))?)
}

/// Stores a new revision; one that says the same as the newest is not stored again.
pub(crate) fn put(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    name: &str,
    title: Option<&str>,
    config: &AgentConfig,
) -> Result<AgentProfile, EngineError> {
    config::check_name(name)?;
    config.validate()?;
    AgentTimeouts::of(config)?;
    let hash = provost_core::hash::body_hash(config)?;
    let newest = agent::latest(tx, namespace.as_str(), name)?;
    if let Some(row) = &newest
        && row.hash == hash
        && row.title.as_deref() == title
        && row.deleted.is_none()
    {
        return AgentProfile::read(row.clone());
    }
    let row = AgentRow {
        namespace: namespace.to_string(),
        name: name.to_owned(),
        revision: newest.map_or(1, |row| row.revision + 1),
        title: title.map(str::to_owned),
        config: serde_json::to_string(config)?,
        hash,
        created: tx.now(),
        deleted: None,
    };
    row.insert(tx)?;
    AgentProfile::read(row)
}
