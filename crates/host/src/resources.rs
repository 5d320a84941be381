//! Resource sets of the database: their tools and their rules.
//!
//! A set never changes, so a process keeps the sets that it used last. A run uses the tools of the set that it pinned, and
//! the rules of the current set.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use provost_core::ErrorKind;
use provost_core::policy::CompiledPolicy;
use provost_resource::{ManifestPolicy, ResourceSet};
use provost_store::{Store, query};
use provost_tool::{CallOrigin, PolicyProvider, PolicyProviderError};
use tokio::sync::OnceCell;
use tokio::time::MissedTickBehavior;

use crate::error::HostError;
use crate::registry::ToolRegistry;
use crate::tool::ToolRegistryConfig;

/// Maximum number of sets that a process keeps, with their connections and programs.
const SETS_MAX: usize = 8;

/// Interval in which a process looks for a new current set.
const POLL: Duration = Duration::from_secs(1);

/// A resource set with its rules and, once an agent needs them, its tools.
pub(crate) struct LoadedSet {
    pub(crate) resources: Arc<ResourceSet>,
    policy: ManifestPolicy,
    registry: OnceCell<Arc<ToolRegistry>>,
}

impl LoadedSet {
    fn new(resources: Arc<ResourceSet>, registry: Option<Arc<ToolRegistry>>) -> Arc<Self> {
        let policy = ManifestPolicy::new(Arc::clone(&resources));
        Arc::new(Self { resources, policy, registry: OnceCell::new_with(registry) })
    }
}

/// Resource sets of the database, by their hash.
pub(crate) struct ResourceSets {
    store: Store,
    /// Configuration of the tools. Its secrets are opened when the first registry is built.
    config: ToolRegistryConfig,
    /// The sets that were used last, newest first.
    recent: Mutex<VecDeque<(String, Arc<LoadedSet>)>>,
}

impl ResourceSets {
    pub(crate) fn new(store: Store, config: ToolRegistryConfig) -> Self {
        Self { store, config, recent: Mutex::default() }
    }

    /// Returns a set. Reads it from the database if this process does not have it.
    pub(crate) async fn get(&self, hash: &str) -> Result<Arc<LoadedSet>, HostError> {
        if let Some(set) = self.recent(hash) {
            return Ok(set);
        }
        let body = query::resource_set::body(&self.store, hash).await;
        let body =
            body.map_err(|error| HostError::new(ErrorKind::Unavailable, error.to_string()))?;
        let body = body.ok_or_else(|| {
            HostError::new(ErrorKind::NotFound, format!("the database has no resource set {hash}"))
        })?;
        let resources = ResourceSet::from_document(&body)
            .map_err(|error| HostError::invalid(error.to_string()))?;
        Ok(self.keep(hash, LoadedSet::new(Arc::new(resources), None)))
    }

    /// Returns the tools of a set. Builds them if no agent needed them before.
    pub(crate) async fn registry(&self, hash: &str) -> Result<Arc<ToolRegistry>, HostError> {
        let set = self.get(hash).await?;
        let build = || async { self.config.build(Arc::clone(&set.resources)).await.map(Arc::new) };
        set.registry.get_or_try_init(build).await.cloned()
    }

    /// Builds the tools of a set that is not in the database yet.
    pub(crate) async fn build(
        &self,
        set: Arc<ResourceSet>,
    ) -> Result<Arc<ToolRegistry>, HostError> {
        self.config.build(set).await.map(Arc::new)
    }

    /// Adds a set whose tools are built.
    pub(crate) fn add(&self, registry: &Arc<ToolRegistry>) {
        let resources = Arc::clone(registry.declared());
        let hash = ResourceSet::hash_of(&resources.to_document());
        self.keep(&hash, LoadedSet::new(resources, Some(Arc::clone(registry))));
    }

    fn recent(&self, hash: &str) -> Option<Arc<LoadedSet>> {
        let mut recent = self.recent.lock();
        let place = recent.iter().position(|(other, _)| other == hash)?;
        let found = recent.remove(place)?;
        let set = Arc::clone(&found.1);
        recent.push_front(found);
        Some(set)
    }

    /// Keeps a set, unless another task was faster. Returns the set that is kept.
    fn keep(&self, hash: &str, set: Arc<LoadedSet>) -> Arc<LoadedSet> {
        if let Some(first) = self.recent(hash) {
            return first;
        }
        let mut recent = self.recent.lock();
        recent.push_front((hash.to_owned(), Arc::clone(&set)));
        recent.truncate(SETS_MAX);
        set
    }

    /// Closes connections and stops programs.
    pub(crate) async fn close(&self) {
        let recent = std::mem::take(&mut *self.recent.lock());
        for (_, set) in recent {
            if let Some(registry) = set.registry.get() {
                registry.close().await;
            }
        }
    }
}

/// The rules of every call: those of the current set, or of the set that the agent names.
pub struct StoredPolicy {
    /// Rules of the current set.
    current: ManifestPolicy,
    sets: Arc<ResourceSets>,
}

impl StoredPolicy {
    pub(crate) fn new(sets: Arc<ResourceSets>) -> Self {
        Self { current: ManifestPolicy::new(Arc::default()), sets }
    }

    /// Returns the rules of the current set. `None` if the set is empty.
    pub fn current(&self) -> Option<&ManifestPolicy> {
        Some(&self.current).filter(|policy| policy.applies_to(&CallOrigin::default()))
    }

    /// Replaces the current set.
    pub(crate) fn replace(&self, resources: &Arc<ResourceSet>) {
        self.current.replace(Arc::clone(resources));
    }

    /// Loads the current set of the database. Returns its version.
    pub(crate) async fn load(&self, seen: Option<u64>) -> Result<Option<u64>, HostError> {
        let newest = query::resource_set::current(&self.sets.store).await;
        let newest =
            newest.map_err(|error| HostError::new(ErrorKind::Unavailable, error.to_string()))?;
        let Some(newest) = newest.filter(|newest| seen != Some(newest.version)) else {
            return Ok(seen);
        };
        self.replace(&self.sets.get(&newest.hash).await?.resources);
        Ok(Some(newest.version))
    }

    /// Follows the current set of the database, which another process may replace. Never returns.
    pub(crate) async fn follow(&self, mut seen: Option<u64>) {
        let mut poll = tokio::time::interval(POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            poll.tick().await;
            match self.load(seen).await {
                Ok(version) => seen = version,
                Err(error) => tracing::error!(%error, "the current resource set cannot be loaded"),
            }
        }
    }
}

impl PolicyProvider for StoredPolicy {
    fn policy<'a>(
        &'a self,
        origin: &'a CallOrigin,
    ) -> BoxFuture<'a, Result<Arc<CompiledPolicy>, PolicyProviderError>> {
        let load = async {
            match &origin.grants.resource_set {
                None => self.current.policy_for(origin),
                Some(hash) => {
                    let set = self.sets.get(hash).await;
                    set.map_err(|error| PolicyProviderError(error.message))?
                        .policy
                        .policy_for(origin)
                }
            }
        };
        load.boxed()
    }

    fn applies_to(&self, origin: &CallOrigin) -> bool {
        origin.grants.resource_set.is_some() || self.current.applies_to(origin)
    }

    fn generation(&self) -> u64 {
        self.current.generation()
    }
}
