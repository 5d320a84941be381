//! Agents: each change is a new revision, so that a run keeps the one it started with.

use provost_core::Timestamp;

use crate::{StoreError, Tx, params};

table! {
    /// One revision of an agent.
    AgentRow in "agent" {
        /// The tenancy boundary.
        namespace: String,
        /// The agent's name.
        name: String,
        /// Counts up from one.
        revision: u64,
        /// The name shown to people.
        title: Option<String>,
        /// Its configuration as JSON.
        config: String,
        /// The hash of the configuration.
        hash: String,
        /// When the revision was made.
        created: Timestamp,
        /// Set on the newest revision of an agent that was deleted.
        deleted: Option<Timestamp>,
    }
}

/// The given revision; also of an agent that was deleted, because runs may still use it.
pub fn get(
    tx: &mut Tx<'_>,
    namespace: &str,
    name: &str,
    revision: u64,
) -> Result<Option<AgentRow>, StoreError> {
    let sql = AgentRow::select("WHERE namespace = ?1 AND name = ?2 AND revision = ?3");
    tx.optional(&sql, params![namespace, name, revision])
}

/// The newest revision, whether or not the agent was deleted.
pub fn latest(
    tx: &mut Tx<'_>,
    namespace: &str,
    name: &str,
) -> Result<Option<AgentRow>, StoreError> {
    let sql = AgentRow::select("WHERE namespace = ?1 AND name = ?2 ORDER BY revision DESC LIMIT 1");
    tx.optional(&sql, params![namespace, name])
}

/// The newest revisions of agents that are not deleted, by name, after the name `after`.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: &str,
    after: &str,
    limit: u64,
) -> Result<Vec<AgentRow>, StoreError> {
    let sql = AgentRow::select(
        "WHERE namespace = ?1 AND name > ?2 AND deleted IS NULL AND revision = (
           SELECT max(newest.revision) FROM agent newest
            WHERE newest.namespace = agent.namespace AND newest.name = agent.name)
         ORDER BY name LIMIT ?3",
    );
    tx.all(&sql, params![namespace, after, limit])
}

/// Marks the newest revision as deleted; false if there is none that is not deleted.
pub fn delete(tx: &mut Tx<'_>, namespace: &str, name: &str) -> Result<bool, StoreError> {
    let changed = tx.execute_fenced(
        "UPDATE agent SET deleted = ?3 WHERE namespace = ?1 AND name = ?2 AND deleted IS NULL AND revision = (
           SELECT max(newest.revision) FROM agent newest WHERE newest.namespace = ?1 AND newest.name = ?2)",
        params![namespace, name, tx.now()],
    )?;
    Ok(changed == 1)
}
