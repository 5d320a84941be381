//! Agents: name, configuration and execution policy. Each change creates a revision, and a run keeps the revision with
//! which it was submitted.

mod cache;
mod resources;

use provost_core::execution_policy::{
    CommandPolicy, ExecutionPolicy, ExecutionPolicyPatch, SandboxCapabilities,
};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RequestError;
use provost_core::resource::{AgentSpec, ResourceError, check_agent_name};
use provost_core::scheduling::InputQueueSettings;
use provost_core::usage::limits::COMMAND_PROMPT_BYTES_MAX;
use provost_store::Tx;
use provost_store::table::governance::agent::{self, AgentRow};
use serde_json::{Map, Value};

pub(crate) use self::cache::{AgentRevisionCache, AgentRevisionKey};
pub use self::resources::ResourceDocument;
use crate::engine::Engine;
use crate::error::EngineError;
use provost_store::query::page::{PAGE_MAX, Page};

/// Name of the agent for requests that name none.
pub const DEFAULT_AGENT: &str = "default";

/// One revision of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentRevision {
    /// Name, unique in the namespace.
    pub name: String,
    /// Number of the revision.
    pub revision: u64,
    /// Display name.
    pub title: Option<String>,
    /// Definition.
    pub config: AgentSpec,
}

/// Change of an agent. Empty fields leave the agent unchanged.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentUpdate {
    /// New display name. `Some(None)` removes it.
    pub title: Option<Option<String>>,
    /// Changes of the configuration. Maps are merged, `null` removes a key, and other keys stay.
    pub config: Map<String, Value>,
    /// True if the caller is an operator, who may set and change fields that grant permissions.
    pub by_operator: bool,
    /// Revision that the caller has read. The update fails if a newer revision exists.
    pub revision: Option<u64>,
}

impl From<Map<String, Value>> for AgentUpdate {
    fn from(config: Map<String, Value>) -> Self {
        Self { config, ..Self::default() }
    }
}

impl AgentRevision {
    /// Parses the configuration of a stored revision.
    pub(crate) fn from_row(row: AgentRow) -> Result<Self, EngineError> {
        let AgentRow { name, revision, title, config, .. } = row;
        Ok(Self { name, revision, title, config: AgentSpec::from_stored(&config)? })
    }

    /// Returns the policy of a run: the policy of the agent, restricted by each request and by the parent run. Fails
    /// if the engine cannot enforce it.
    pub(crate) fn policy(
        &self,
        requests: &[Option<&ExecutionPolicyPatch>],
        parent: Option<&ExecutionPolicy>,
    ) -> Result<ExecutionPolicy, EngineError> {
        self.config.policy.validate()?;
        let nothing = ExecutionPolicyPatch::default();
        let ceiling = ExecutionPolicy::unrestricted();
        // An agent without a command policy may run no commands, because it has no sandbox for them.
        let security = self.config.policy.security.or(Some(CommandPolicy::Deny));
        let agent = ExecutionPolicyPatch { security, ..self.config.policy.clone() };
        let mut policy = ExecutionPolicy::effective(&ceiling, &agent, &nothing, &nothing);
        for request in requests.iter().flatten() {
            request.validate()?;
            policy = policy.restricted_by(request);
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
    /// Creates an agent. Fails if an agent with this name exists.
    pub async fn create_agent(
        &self,
        namespace: &Namespace,
        name: &str,
        title: Option<&str>,
        config: AgentSpec,
    ) -> Result<AgentRevision, EngineError> {
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

    /// Returns the newest revision of an agent. Fails if the agent does not exist or is deleted.
    pub async fn agent(
        &self,
        namespace: &Namespace,
        name: &str,
    ) -> Result<AgentRevision, EngineError> {
        let (namespace, name) = (namespace.clone(), name.to_owned());
        self.inner.store.read(move |tx| resolve(tx, &namespace, Some(&name))).await
    }

    /// Lists up to `limit` agents of a namespace by name, after the name `after`.
    pub async fn agents(
        &self,
        namespace: &Namespace,
        after: Option<&str>,
        limit: u64,
    ) -> Result<Page<AgentRevision, String>, EngineError> {
        let (namespace, after) = (namespace.clone(), after.unwrap_or_default().to_owned());
        let limit = limit.clamp(1, PAGE_MAX);
        let rows = self.inner.store.read(move |tx| {
            Ok::<_, EngineError>(agent::list(tx, namespace.as_str(), &after, limit)?)
        });
        let items: Result<Vec<_>, _> =
            rows.await?.into_iter().map(AgentRevision::from_row).collect();
        Ok(Page::new(items?, limit, |revision| revision.name.clone()))
    }

    /// Stores a new revision of an agent with the change, unless the configuration stays the same. Fails if the change
    /// names another revision than the newest one. Runs that were submitted before keep their revision.
    pub async fn update_agent(
        &self,
        namespace: &Namespace,
        name: &str,
        change: impl Into<AgentUpdate>,
    ) -> Result<AgentRevision, EngineError> {
        let (namespace, name, change) = (namespace.clone(), name.to_owned(), change.into());
        let write = self.inner.store.write(move |tx| {
            let known = resolve(tx, &namespace, Some(&name))?;
            if change.revision.is_some_and(|seen| seen != known.revision) {
                let (id, current) = (name.clone(), known.revision);
                return Err(RequestError::RevisionConflict { what: "agent", id, current }.into());
            }
            let config = known.config.merged(&change.config).map_err(invalid_spec)?;
            if !change.by_operator {
                known.config.require_no_operator_fields()?;
                config.require_no_operator_fields()?;
            }
            let title = change.title.as_ref().unwrap_or(&known.title);
            put(tx, &namespace, &name, title.as_deref(), &config)
        });
        write.await
    }

    /// Deletes an agent. Its tasks stay, and submitted runs continue with their revision. Fails if the agent does not
    /// exist.
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

/// Returns the newest revision of an agent. `None` as the name means the default agent. Fails if the agent does not
/// exist or is deleted.
pub(crate) fn resolve(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    name: Option<&str>,
) -> Result<AgentRevision, EngineError> {
    let name = name.unwrap_or(DEFAULT_AGENT);
    let row = agent::latest(tx, namespace.as_str(), name)?.filter(|row| row.deleted.is_none());
    AgentRevision::from_row(row.ok_or_else(|| RequestError::not_found("agent", name))?)
}

/// Stores a new revision of an agent and returns it. If it equals the newest revision, returns that one.
pub(crate) fn put(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    name: &str,
    title: Option<&str>,
    config: &AgentSpec,
) -> Result<AgentRevision, EngineError> {
    check_agent_name(name).map_err(invalid_spec)?;
    validate(config)?;
    let hash = provost_core::hash::body_hash(config)?;
    let newest = agent::latest(tx, namespace.as_str(), name)?;
    if let Some(row) = &newest
        && row.hash == hash
        && row.title.as_deref() == title
        && row.deleted.is_none()
    {
        return AgentRevision::from_row(row.clone());
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
    AgentRevision::from_row(row)
}

/// Validates the definition of an agent.
fn validate(spec: &AgentSpec) -> Result<(), EngineError> {
    spec.validate().map_err(invalid_spec)?;
    let bytes = spec.system_prompt.as_ref().map_or(0, String::len);
    if bytes > COMMAND_PROMPT_BYTES_MAX {
        let (path, max) = ("agent.system_prompt".to_owned(), COMMAND_PROMPT_BYTES_MAX);
        return Err(RequestError::TooLarge { path, bytes, max }.into());
    }
    spec.policy.validate()?;
    InputQueueSettings::default().with(&[spec.queue]).validate()?;
    Ok(())
}

/// Converts an error about a definition to one about the request.
fn invalid_spec(error: ResourceError) -> RequestError {
    let path = match error.path.as_str() {
        "" => "agent".to_owned(),
        path => format!("agent.{path}"),
    };
    RequestError::invalid(&path, error.problem, error.fix)
}
