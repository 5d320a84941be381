//! What counts for a run, from what was declared.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::policy::{CompiledPolicy, PolicySubject};
use provost_tool::{Governor, GovernorError, Origin};

use crate::Declared;

/// Compiled answers that are kept; more agents than this are compiled again.
const KEPT_MAX: usize = 4096;

/// Tells what counts for a run.
pub struct DeclaredGovernor {
    current: RwLock<Arc<Current>>,
    /// Roles of agents that nothing is declared about.
    roles: Vec<String>,
}

/// What was declared last, with the answers that were made of it.
struct Current {
    declared: Arc<Declared>,
    edition: u64,
    kept: Mutex<HashMap<(String, String), Arc<CompiledPolicy>>>,
}

impl DeclaredGovernor {
    /// Over what was declared. An agent that is not declared has no role.
    pub fn new(declared: Arc<Declared>) -> Self {
        let current = Current { declared, edition: 0, kept: Mutex::default() };
        Self { current: RwLock::new(Arc::new(current)), roles: Vec::new() }
    }

    /// Puts what was declared anew in the place of what was. Calls that were let through go on; every later one is decided by
    /// the new rules, in runs that have begun before as well.
    pub fn replace(&self, declared: Arc<Declared>) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let edition = current.edition + 1;
        *current = Arc::new(Current { declared, edition, kept: Mutex::default() });
    }

    fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives roles to agents that are not declared: for a program whose user is the operator.
    #[must_use]
    pub fn roles(mut self, roles: Vec<String>) -> Self {
        self.roles = roles;
        self
    }

    /// What counts for somebody.
    pub fn governance_of(&self, origin: &Origin) -> Result<Arc<CompiledPolicy>, GovernorError> {
        let key = (origin.namespace.clone(), origin.agent.clone());
        let current = self.current();
        let declared = &current.declared;
        // Policies for single tasks would make each answer good for one task only.
        let keep = !declared.has_scoped_policies(&origin.namespace);
        let kept = || current.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if keep && let Some(found) = kept().get(&key) {
            return Ok(Arc::clone(found));
        }
        let mut subject = PolicySubject::new(&origin.namespace, &origin.agent);
        match declared.agent(&origin.namespace, &origin.agent) {
            Some(agent) => {
                subject.roles.clone_from(&agent.roles);
                subject.allowed_tools.clone_from(&agent.allowed_tools);
            }
            None => subject.roles.clone_from(&self.roles),
        }
        subject.task.clone_from(&origin.task);
        subject.system.clone_from(&origin.system);
        let governance = declared.governance(subject);
        let governance = Arc::new(governance.map_err(|error| GovernorError(error.to_string()))?);
        if keep {
            let mut kept = kept();
            if kept.len() >= KEPT_MAX {
                kept.clear();
            }
            kept.insert(key, Arc::clone(&governance));
        }
        Ok(governance)
    }
}

impl Governor for DeclaredGovernor {
    fn governance<'a>(
        &'a self,
        origin: &'a Origin,
    ) -> BoxFuture<'a, Result<Arc<CompiledPolicy>, GovernorError>> {
        std::future::ready(self.governance_of(origin)).boxed()
    }

    fn edition(&self) -> u64 {
        self.current().edition
    }
}
