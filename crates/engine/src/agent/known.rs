//! Cache of agent profiles. A revision never changes, so it is read once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use provost_store::Store;
use provost_store::table::governance::agent;

use super::AgentProfile;
use crate::error::EngineError;

/// Profiles in the cache. When it is full, it is emptied.
const KEPT_MAX: usize = 256;

/// Identifies one revision of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ProfileKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) revision: u64,
}

/// Agent profiles by their keys.
#[derive(Default)]
pub(crate) struct Profiles(Mutex<HashMap<ProfileKey, Arc<AgentProfile>>>);

impl Profiles {
    /// Returns the profile, even if its agent was deleted since.
    pub(crate) async fn get(
        &self,
        store: &Store,
        key: ProfileKey,
    ) -> Result<Arc<AgentProfile>, EngineError> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let wanted = key.clone();
        let row = store.read(move |tx| {
            let ProfileKey { namespace, name, revision } = &wanted;
            Ok::<_, EngineError>(agent::get(tx, namespace, name, *revision)?)
        });
        let row = row.await?.ok_or_else(|| EngineError::not_found("agent", &key.name))?;
        let profile = Arc::new(AgentProfile::read(row)?);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&profile));
        Ok(profile)
    }
}
