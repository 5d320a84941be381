//! Agents. Each change creates a new revision, so that a run keeps the revision with which it started.

use provost_core::Timestamp;

use crate::{StoreError, Tx, params};

table! {
    /// A revision of an agent.
    AgentRow in "agent" {
        /// Namespace of the row.
        namespace: String,
        /// Name of the agent.
        name: String,
        /// Revision number, starting at 1.
        revision: u64,
        /// Display name.
        title: Option<String>,
        /// Configuration, as JSON.
        config: String,
        /// Hash of the configuration.
        hash: String,
        /// Time of creation.
        created: Timestamp,
        /// Time of deletion, on the newest revision of a deleted agent.
        deleted: Option<Timestamp>,
    }
}

/// Returns a revision, also of a deleted agent, because runs may still use it. `None` if it does not exist.
pub fn get(
    tx: &mut Tx<'_>,
    namespace: &str,
    name: &str,
    revision: u64,
) -> Result<Option<AgentRow>, StoreError> {
    let sql = AgentRow::select("WHERE namespace = ?1 AND name = ?2 AND revision = ?3");
    tx.fetch_optional(&sql, params![namespace, name, revision])
}

/// Returns the newest revision, also of a deleted agent. `None` if there is none.
pub fn latest(
    tx: &mut Tx<'_>,
    namespace: &str,
    name: &str,
) -> Result<Option<AgentRow>, StoreError> {
    let sql = AgentRow::select("WHERE namespace = ?1 AND name = ?2 ORDER BY revision DESC LIMIT 1");
    tx.fetch_optional(&sql, params![namespace, name])
}

/// Returns the newest revisions of all agents that are not deleted, sorted by name, after the name `after`.
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
    tx.fetch_all(&sql, params![namespace, after, limit])
}

/// Marks the newest revision as deleted. Returns false if the agent does not exist or is already deleted.
pub fn delete(tx: &mut Tx<'_>, namespace: &str, name: &str) -> Result<bool, StoreError> {
    let changed = tx.execute_fenced(
        "UPDATE agent SET deleted = ?3 WHERE namespace = ?1 AND name = ?2 AND deleted IS NULL AND revision = (
           SELECT max(newest.revision) FROM agent newest WHERE newest.namespace = ?1 AND newest.name = ?2)",
        params![namespace, name, tx.now()],
    )?;
    Ok(changed == 1)
}
