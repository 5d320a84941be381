//! Where a run's governance comes from, and what counts when it cannot be had.
//!
//! Invariant: whatever goes wrong while it is read, the answer to every call of the run is no.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::RunId;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::policy::{CompiledPolicy, PolicyDecision, ToolAttributes};

/// How long a governor may take.
const GOVERNOR_TIMEOUT: Duration = Duration::from_secs(10);

/// Where calls come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Where the run belongs.
    pub namespace: String,
    /// The agent.
    pub agent: String,
    /// The run.
    pub run: Option<RunId>,
    /// The task's name.
    pub task: String,
    /// The system's name.
    pub system: String,
    /// The worker that does it.
    pub worker: String,
    /// Who started it.
    pub principal: String,
}

impl Default for Origin {
    /// The namespace that everything belongs to for which nobody names another.
    fn default() -> Self {
        Self {
            namespace: "default".to_owned(),
            agent: String::new(),
            run: None,
            task: String::new(),
            system: String::new(),
            worker: String::new(),
            principal: String::new(),
        }
    }
}

/// Why governance could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GovernorError(pub String);

/// Reads what governs a run: once when it starts, and again when that may have changed, so that a call costs a look into a table.
pub trait Governor: Send + Sync + 'static {
    /// The snapshot for a run. Any error denies every call of the run.
    fn governance<'a>(
        &'a self,
        origin: &'a Origin,
    ) -> BoxFuture<'a, Result<Arc<CompiledPolicy>, GovernorError>>;

    /// Another number whenever it may say something else than before. Asked before each call; a run that has read another
    /// edition reads again.
    fn edition(&self) -> u64 {
        0
    }
}

/// What governs the calls of one run.
pub(crate) enum Governing {
    /// Nobody governs.
    Nobody,
    /// It could not be read.
    Unread,
    /// This.
    By(Arc<CompiledPolicy>),
}

/// One run at the guard.
pub(crate) struct Seat {
    pub(crate) origin: Origin,
    pub(crate) governing: Governing,
    /// The governor's edition that was read.
    pub(crate) edition: u64,
}

impl Seat {
    /// Reads what governs a run. An error, a panic, silence, and a snapshot for somebody else are all no answer.
    pub(crate) async fn read(governor: &dyn Governor, origin: Origin) -> Self {
        // Looked at first: what changes meanwhile is read again.
        let edition = governor.edition();
        let asked = AssertUnwindSafe(async { governor.governance(&origin).await }).catch_unwind();
        let problem = match tokio::time::timeout(GOVERNOR_TIMEOUT, asked).await {
            Ok(Ok(Ok(governance))) => {
                if is_for(&governance, &origin) {
                    return Self { origin, governing: Governing::By(governance), edition };
                }
                "it is for another agent".to_owned()
            }
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(_)) => "it panicked".to_owned(),
            Err(_) => format!("it took longer than {} s", GOVERNOR_TIMEOUT.as_secs()),
        };
        tracing::error!(
            namespace = origin.namespace,
            agent = origin.agent,
            problem,
            "governance could not be read: every call of the run is denied"
        );
        Self { origin, governing: Governing::Unread, edition }
    }

    /// A run where nobody is asked: what was there already still counts, and only for whom it was made.
    pub(crate) fn kept(before: Option<&Self>, origin: Origin) -> Self {
        let governing = match before.map(|seat| &seat.governing) {
            None | Some(Governing::Nobody) => Governing::Nobody,
            Some(Governing::By(governance)) if is_for(governance, &origin) => {
                Governing::By(Arc::clone(governance))
            }
            Some(Governing::By(_) | Governing::Unread) => Governing::Unread,
        };
        Self { origin, governing, edition: 0 }
    }

    /// The run of a ready snapshot.
    pub(crate) fn of(governance: Arc<CompiledPolicy>) -> Self {
        let subject = governance.subject();
        let origin = Origin {
            namespace: subject.namespace.clone(),
            agent: subject.agent.clone(),
            task: subject.task.clone(),
            system: subject.system.clone(),
            ..Origin::default()
        };
        Self { origin, governing: Governing::By(governance), edition: 0 }
    }

    /// The revision of the policy that counts.
    pub(crate) fn revision(&self) -> Option<&str> {
        match &self.governing {
            Governing::By(governance) => Some(governance.revision()),
            Governing::Nobody | Governing::Unread => None,
        }
    }

    /// What is decided about a call; nothing where nobody governs.
    pub(crate) fn decide(&self, tool: &ToolAttributes<'_>, action: &str) -> Option<PolicyDecision> {
        match &self.governing {
            Governing::Nobody => None,
            Governing::Unread => Some(unread()),
            Governing::By(governance) => Some(governance.decide(tool, action)),
        }
    }
}

fn is_for(governance: &CompiledPolicy, origin: &Origin) -> bool {
    let subject = governance.subject();
    subject.namespace == origin.namespace && subject.agent == origin.agent
}

/// The answer where governance could not be read.
pub(crate) fn unread() -> PolicyDecision {
    PolicyDecision::Deny {
        code: ToolErrorCode::PermissionDenied,
        reason: "governance could not be read, so the call is denied".to_owned(),
    }
}

/// The fault of a denied call, with the revision that denied it.
pub(crate) fn denied(message: String, revision: Option<&str>) -> ToolContractError {
    let fault = ToolContractError::new(ToolErrorCode::PermissionDenied, message);
    match revision {
        Some(revision) => fault.detail("policy_revision", revision),
        None => fault,
    }
}
