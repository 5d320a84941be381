//! Cache of agent revisions. A revision never changes, so it is read once.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use provost_store::Store;
use provost_store::table::governance::agent;

use super::AgentRevision;
use crate::error::EngineError;

/// Maximum number of cached revisions. A full cache is emptied.
const CACHED_MAX: usize = 256;

/// Identifies one revision of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AgentRevisionKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) revision: u64,
}

/// Agent revisions by their keys.
#[derive(Default)]
pub(crate) struct AgentRevisionCache(Mutex<HashMap<AgentRevisionKey, Arc<AgentRevision>>>);

impl AgentRevisionCache {
    /// Returns the revision from the cache, or reads and caches it. A revision stays readable after its agent was
    /// deleted. Fails if the revision does not exist.
    pub(crate) async fn get(
        &self,
        store: &Store,
        key: AgentRevisionKey,
    ) -> Result<Arc<AgentRevision>, EngineError> {
        let known = self.0.lock().get(&key).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let wanted_key = key.clone();
        let row = store.read(move |tx| {
            let AgentRevisionKey { namespace, name, revision } = &wanted_key;
            Ok::<_, EngineError>(agent::get(tx, namespace, name, *revision)?)
        });
        let row = row.await?.ok_or_else(|| EngineError::not_found("agent", &key.name))?;
        let revision = Arc::new(AgentRevision::from_row(row)?);
        let mut cache = self.0.lock();
        if cache.len() >= CACHED_MAX {
            cache.clear();
        }
        cache.insert(key, Arc::clone(&revision));
        Ok(revision)
    }
}
