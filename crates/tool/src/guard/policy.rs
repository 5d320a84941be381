//! The policy of a run: loading it, and denying every call when it is unavailable.
//!
//! Invariant: after any error while a policy is loaded, every call of the run is denied.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::RunId;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::policy::{CompiledPolicy, PolicyDecision, ToolAttributes};
use provost_core::resource::AgentSpec;

/// Maximum time for loading a policy.
const POLICY_TIMEOUT: Duration = Duration::from_secs(10);

/// Run and owner of tool calls, for policies and records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOrigin {
    /// Namespace of the run.
    pub namespace: String,
    /// Name of the agent.
    pub agent: String,
    /// Id of the run. `None` if the call does not belong to a run.
    pub run: Option<RunId>,
    /// Name of the task. Empty if there is none.
    pub task: String,
    /// Name of the system. Empty if there is none.
    pub system: String,
    /// Name of the worker that executes the run. Empty if there is none.
    pub worker: String,
    /// Principal that started the run. Empty if unknown.
    pub principal: String,
    /// Permissions that the definition of the agent contains.
    pub grants: Grants,
}

/// Permissions of an agent that its operator defined together with a resource set of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grants {
    /// Hash of the resource set with the rules. `None` for the current set.
    pub resource_set: Option<String>,
    /// Roles of the agent, unless the set declares the agent.
    pub roles: Vec<String>,
}

impl Grants {
    /// Returns the permissions of a definition. Without a resource set of its own, only manifests grant roles.
    pub fn of_spec(spec: &AgentSpec) -> Self {
        match &spec.resource_set {
            Some(set) => Self { resource_set: Some(set.clone()), roles: spec.roles.clone() },
            None => Self::default(),
        }
    }
}

impl Default for CallOrigin {
    /// Returns an origin in the namespace `default`.
    fn default() -> Self {
        Self {
            namespace: "default".to_owned(),
            agent: String::new(),
            run: None,
            task: String::new(),
            system: String::new(),
            worker: String::new(),
            principal: String::new(),
            grants: Grants::default(),
        }
    }
}

/// Error of a [`PolicyProvider`] that cannot return a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PolicyProviderError(pub String);

/// Provides the policy of a run. The guard loads it when a run starts and when its generation changes, so a call itself
/// performs no IO.
pub trait PolicyProvider: Send + Sync + 'static {
    /// Returns the compiled policy of a run. An error denies every call of the run.
    fn policy<'a>(
        &'a self,
        origin: &'a CallOrigin,
    ) -> BoxFuture<'a, Result<Arc<CompiledPolicy>, PolicyProviderError>>;

    /// Returns false if no policy applies to the run.
    fn applies_to(&self, _origin: &CallOrigin) -> bool {
        true
    }

    /// Returns a number that changes whenever the policy may have changed. The guard reads it before each call and
    /// reloads the policy if it differs.
    fn generation(&self) -> u64 {
        0
    }
}

/// Policy of one run: none, unavailable or loaded.
pub(crate) enum ActivePolicy {
    /// No policy applies.
    None,
    /// The policy could not be loaded.
    Unavailable,
    /// The compiled policy.
    Loaded(Arc<CompiledPolicy>),
}

/// Origin and policy of one run.
pub(crate) struct RunPolicy {
    pub(crate) origin: CallOrigin,
    pub(crate) policy: ActivePolicy,
    /// Generation of the policy when it was loaded.
    pub(crate) generation: u64,
}

impl RunPolicy {
    /// Loads the policy of a run. Returns an unavailable policy, after logging an error, if the provider fails, panics
    /// or times out, or returns the policy of another agent.
    pub(crate) async fn load(provider: &dyn PolicyProvider, origin: CallOrigin) -> Self {
        // Read first, so that a change during the load triggers a reload.
        let generation = provider.generation();
        if !provider.applies_to(&origin) {
            return Self { origin, policy: ActivePolicy::None, generation };
        }
        let load = AssertUnwindSafe(async { provider.policy(&origin).await }).catch_unwind();
        let problem = match tokio::time::timeout(POLICY_TIMEOUT, load).await {
            Ok(Ok(Ok(policy))) => {
                if applies_to(&policy, &origin) {
                    return Self { origin, policy: ActivePolicy::Loaded(policy), generation };
                }
                "the policy belongs to another agent".to_owned()
            }
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(_)) => "the policy provider panicked".to_owned(),
            Err(_) => {
                format!("the policy provider took longer than {} s", POLICY_TIMEOUT.as_secs())
            }
        };
        tracing::error!(
            namespace = origin.namespace,
            agent = origin.agent,
            problem,
            "policy could not be loaded: every call of the run is denied"
        );
        Self { origin, policy: ActivePolicy::Unavailable, generation }
    }

    /// Returns the policy of a run without a policy provider. The policy of `before` applies only to the agent for
    /// which it was compiled; for another agent it is unavailable.
    pub(crate) fn inherit(before: Option<&Self>, origin: CallOrigin) -> Self {
        let policy = match before.map(|run_policy| &run_policy.policy) {
            None | Some(ActivePolicy::None) => ActivePolicy::None,
            Some(ActivePolicy::Loaded(policy)) if applies_to(policy, &origin) => {
                ActivePolicy::Loaded(Arc::clone(policy))
            }
            Some(ActivePolicy::Loaded(_) | ActivePolicy::Unavailable) => ActivePolicy::Unavailable,
        };
        Self { origin, policy, generation: 0 }
    }

    /// Creates the run policy of a compiled policy.
    pub(crate) fn from_policy(policy: Arc<CompiledPolicy>) -> Self {
        let subject = policy.subject();
        let origin = CallOrigin {
            namespace: subject.namespace.clone(),
            agent: subject.agent.clone(),
            task: subject.task.clone(),
            system: subject.system.clone(),
            ..CallOrigin::default()
        };
        Self { origin, policy: ActivePolicy::Loaded(policy), generation: 0 }
    }

    /// Returns the revision of the loaded policy.
    pub(crate) fn revision(&self) -> Option<&str> {
        match &self.policy {
            ActivePolicy::Loaded(policy) => Some(policy.revision()),
            ActivePolicy::None | ActivePolicy::Unavailable => None,
        }
    }

    /// Returns the decision of the policy about a call. `None` if no policy applies.
    pub(crate) fn decide(&self, tool: &ToolAttributes<'_>, action: &str) -> Option<PolicyDecision> {
        match &self.policy {
            ActivePolicy::None => None,
            ActivePolicy::Unavailable => Some(policy_unavailable()),
            ActivePolicy::Loaded(policy) => Some(policy.decide(tool, action)),
        }
    }
}

/// Returns true if the policy was compiled for the agent of the origin.
fn applies_to(policy: &CompiledPolicy, origin: &CallOrigin) -> bool {
    let subject = policy.subject();
    subject.namespace == origin.namespace && subject.agent == origin.agent
}

/// Creates the decision for a call whose policy is unavailable: it is denied.
pub(crate) fn policy_unavailable() -> PolicyDecision {
    PolicyDecision::Deny {
        code: ToolErrorCode::PermissionDenied,
        reason: "the policy could not be loaded, so the call is denied".to_owned(),
    }
}

/// Creates the error of a denied call, with the revision of the policy that denied it.
pub(crate) fn denied_error(message: String, revision: Option<&str>) -> ToolContractError {
    let fault = ToolContractError::new(ToolErrorCode::PermissionDenied, message);
    match revision {
        Some(revision) => fault.detail("policy_revision", revision),
        None => fault,
    }
}
