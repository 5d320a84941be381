//! What counts for a run, from what was declared.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::policy::{Governance, Subject};
use provost_tool::{Governor, GovernorError, Origin};

use crate::Declared;

/// Compiled answers that are kept; more agents than this are compiled again.
const KEPT_MAX: usize = 4096;

/// Tells what counts for a run.
pub struct DeclaredGovernor {
    declared: Arc<Declared>,
    /// Roles of agents that nothing is declared about.
    roles: Vec<String>,
    kept: Mutex<HashMap<(String, String), Arc<Governance>>>,
}

impl DeclaredGovernor {
    /// Over what was declared. An agent that is not declared has no role.
    pub fn new(declared: Arc<Declared>) -> Self {
        Self { declared, roles: Vec::new(), kept: Mutex::default() }
    }

    /// Gives roles to agents that are not declared: for a program whose user is the operator.
    #[must_use]
    pub fn roles(mut self, roles: Vec<String>) -> Self {
        self.roles = roles;
        self
    }

    /// What counts for somebody.
    pub fn governance_of(&self, origin: &Origin) -> Result<Arc<Governance>, GovernorError> {
        let key = (origin.namespace.clone(), origin.agent.clone());
        // Policies for single tasks would make each answer good for one task only.
        let keep = !self.declared.has_scoped_policies(&origin.namespace);
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if keep && let Some(found) = kept().get(&key) {
            return Ok(Arc::clone(found));
        }
        let mut subject = Subject::new(&origin.namespace, &origin.agent);
        match self.declared.agent(&origin.namespace, &origin.agent) {
            Some(agent) => {
                subject.roles.clone_from(&agent.roles);
                subject.allowed_tools.clone_from(&agent.allowed_tools);
            }
            None => subject.roles.clone_from(&self.roles),
        }
        subject.task.clone_from(&origin.task);
        subject.system.clone_from(&origin.system);
        let governance = self.declared.governance(subject);
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
    ) -> BoxFuture<'a, Result<Arc<Governance>, GovernorError>> {
        std::future::ready(self.governance_of(origin)).boxed()
    }
}
