//! Dependencies and options of an engine.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use provost_core::Env;
use provost_core::lifecycle::ApprovalTimeoutAction;
use provost_core::recovery::UnknownEffectPolicy;
use provost_core::usage::limits::{LEASE_HEARTBEAT_DEFAULT, LEASE_TTL_DEFAULT};
use provost_store::Store;
use provost_tool::GuardServices;

use crate::attempt::workspace::WorkspaceProbe;
use crate::child::ChildLimits;
use crate::engine::AgentProvider;
use crate::maintenance::CrashLoopGuard;
use crate::maintenance::retention::RetentionPolicy;
use crate::outbound::delivery::DeliveryAdapter;
use crate::worker::served_sessions::ServedSessions;

/// Dependencies of an engine. [`EngineDeps::new`] takes the required ones; the others start empty.
pub struct EngineDeps {
    /// The database.
    pub store: Store,
    /// Builds the agents of runs.
    pub agents: Arc<dyn AgentProvider>,
    /// Services that govern each tool call of every run, whichever agent it runs.
    pub guard: GuardServices,
    /// The clock and the source of ids.
    pub env: Env,
    /// Delivery channels by the name that a routing uses.
    pub channels: HashMap<String, Arc<dyn DeliveryAdapter>>,
    /// Detects whether the workspace of a resumed run is intact. `None`: every workspace counts as intact.
    pub workspaces: Option<Arc<dyn WorkspaceProbe>>,
}

impl EngineDeps {
    /// Creates dependencies without delivery channels and without a workspace probe.
    pub fn new(store: Store, agents: impl AgentProvider, guard: GuardServices, env: Env) -> Self {
        let agents = Arc::new(agents);
        Self { store, agents, guard, env, channels: HashMap::new(), workspaces: None }
    }
}

/// Options of an engine. Every field has a default.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Worker pool whose runs the workers claim. Default: `default`.
    pub pool: String,
    /// Sessions that the workers serve. `None`: all sessions.
    pub served_sessions: Option<ServedSessions>,
    /// Number of runs that one worker executes concurrently. Default: 64.
    pub capacity: usize,
    /// Duration of a lease after its last renewal.
    pub lease: Duration,
    /// Interval between lease renewals.
    pub heartbeat: Duration,
    /// Interval of polling for work whose wakeup was lost. Default: 1 s.
    pub poll: Duration,
    /// Time that a run has to stop before it is dropped. Default: 20 s.
    pub grace: Duration,
    /// Action for an opaque effect whose outcome is unknown.
    pub on_unknown: UnknownEffectPolicy,
    /// Limits on child runs.
    pub children: ChildLimits,
    /// Timeout of one run attempt, unless the agent sets its own. `None`: no timeout.
    pub attempt_timeout: Option<Duration>,
    /// Idle timeout: longest time that an attempt may produce no event while no tool runs, unless the agent sets its
    /// own. `None`: no timeout. Default: 10 min.
    pub idle_timeout: Option<Duration>,
    /// Time that a person has to decide an approval. `None`: the default of the approval.
    pub approval_expiry: Option<Duration>,
    /// Decision that applies when an approval expires.
    pub fallback: ApprovalTimeoutAction,
    /// Detects a crash loop: after too many crashes, a new worker waits before it claims runs. For services that a
    /// supervisor restarts. `None`: no detection.
    pub crash_loop_guard: Option<CrashLoopGuard>,
    /// Retention periods of ended work.
    pub retention: RetentionPolicy,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            pool: "default".to_owned(),
            served_sessions: None,
            capacity: 64,
            lease: LEASE_TTL_DEFAULT,
            heartbeat: LEASE_HEARTBEAT_DEFAULT,
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(20),
            on_unknown: UnknownEffectPolicy::default(),
            children: ChildLimits::default(),
            attempt_timeout: None,
            // Longer than the timeouts of model clients.
            idle_timeout: Some(Duration::from_secs(600)),
            approval_expiry: None,
            fallback: ApprovalTimeoutAction::default(),
            crash_loop_guard: None,
            retention: RetentionPolicy::default(),
        }
    }
}
