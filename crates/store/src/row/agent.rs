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

/// True if the newest revision of an agent is this one with this hash, it is not deleted, and the class is there and says what its
/// runs may do.
pub fn is_current(
    tx: &mut Tx<'_>,
    (namespace, name): (&str, &str),
    (revision, hash): (u64, &str),
    class_key: &str,
) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM agent a
                WHERE a.namespace = ?1 AND a.name = ?2 AND a.revision = ?3 AND a.hash = ?4 AND a.deleted IS NULL
                  AND NOT EXISTS (SELECT 1 FROM agent n
                        WHERE n.namespace = ?1 AND n.name = ?2 AND n.revision > ?3)
                  AND EXISTS (SELECT 1 FROM exec_class c WHERE c.key = ?5)";
    tx.exists(sql, params![namespace, name, revision, hash, class_key])
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
    let changed = tx.execute(
        "UPDATE agent SET deleted = ?3 WHERE namespace = ?1 AND name = ?2 AND deleted IS NULL AND revision = (
           SELECT max(newest.revision) FROM agent newest WHERE newest.namespace = ?1 AND newest.name = ?2)",
        params![namespace, name, tx.now()],
    )?;
    Ok(changed == 1)
}
