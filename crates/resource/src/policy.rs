//! Policies of runs, compiled from manifests.

use std::collections::HashMap;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use provost_core::policy::{CompiledPolicy, PolicySubject};
use provost_tool::{CallOrigin, PolicyProvider, PolicyProviderError};

use crate::ResourceSet;

/// Maximum number of cached policies. The cache is cleared when it is full.
const CACHED_MAX: usize = 4096;

/// Policy provider that compiles policies from a resource set.
pub struct ManifestPolicy {
    current: RwLock<Arc<Current>>,
}

/// The resource set in use, with the policies that were compiled from it.
struct Current {
    resources: Arc<ResourceSet>,
    generation: u64,
    cache: Mutex<HashMap<PolicyKey, Arc<CompiledPolicy>>>,
}

/// Identifies a cached policy.
#[derive(PartialEq, Eq, Hash)]
struct PolicyKey {
    namespace: String,
    agent: String,
    roles: Vec<String>,
}

impl ManifestPolicy {
    /// Creates a provider over a resource set. Agents that are not declared have no role.
    pub fn new(resources: Arc<ResourceSet>) -> Self {
        let current = Current { resources, generation: 0, cache: Mutex::default() };
        Self { current: RwLock::new(Arc::new(current)) }
    }

    /// Replaces the resource set. Running calls continue. The new rules apply to every later call, also in runs that
    /// started before.
    pub fn replace(&self, resources: Arc<ResourceSet>) {
        let mut current = self.current.write();
        let generation = current.generation + 1;
        *current = Arc::new(Current { resources, generation, cache: Mutex::default() });
    }

    fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.read())
    }

    /// Returns the policy of the agent of `origin`: from the cache, or compiled and added to the cache. A namespace
    /// with policies for single tasks or systems is never cached. Returns an error if the policy does not compile.
    pub fn policy_for(
        &self,
        origin: &CallOrigin,
    ) -> Result<Arc<CompiledPolicy>, PolicyProviderError> {
        let key = PolicyKey {
            namespace: origin.namespace.clone(),
            agent: origin.agent.clone(),
            roles: origin.grants.roles.clone(),
        };
        let current = self.current();
        let resources = &current.resources;
        // With policies for single tasks, a policy would be valid for one task only.
        let is_cacheable = !resources.has_scoped_policies(&origin.namespace);
        let cache = || current.cache.lock();
        if is_cacheable && let Some(policy) = cache().get(&key) {
            return Ok(Arc::clone(policy));
        }
        let mut subject = PolicySubject::new(&origin.namespace, &origin.agent);
        match resources.agent(&origin.namespace, &origin.agent) {
            Some(agent) => {
                subject.roles.clone_from(&agent.spec.roles);
                subject.allowed_tools.clone_from(&agent.spec.allowed_tools);
            }
            None => subject.roles.clone_from(&origin.grants.roles),
        }
        subject.task.clone_from(&origin.task);
        subject.system.clone_from(&origin.system);
        let policy = resources.compile_policy(subject);
        let policy = Arc::new(policy.map_err(|error| PolicyProviderError(error.to_string()))?);
        if is_cacheable {
            let mut cache = cache();
            if cache.len() >= CACHED_MAX {
                cache.clear();
            }
            cache.insert(key, Arc::clone(&policy));
        }
        Ok(policy)
    }
}

impl PolicyProvider for ManifestPolicy {
    fn policy<'a>(
        &'a self,
        origin: &'a CallOrigin,
    ) -> BoxFuture<'a, Result<Arc<CompiledPolicy>, PolicyProviderError>> {
        std::future::ready(self.policy_for(origin)).boxed()
    }

    fn applies_to(&self, _: &CallOrigin) -> bool {
        !self.current().resources.is_empty()
    }

    fn generation(&self) -> u64 {
        self.current().generation
    }
}
