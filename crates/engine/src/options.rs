//! Dependencies and options of an engine. Everything it works with exists before it does.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use provost_core::Env;
use provost_core::lifecycle::Fallback;
use provost_core::recovery::OnUnknown;
use provost_core::usage::limits::{LEASE_HEARTBEAT, LEASE_TTL};
use provost_store::Store;

use crate::attempt::workspace::Workspaces;
use crate::child::ChildLimits;
use crate::engine::Agents;
use crate::maintenance::BootGuard;
use crate::maintenance::retention::Retention;
use crate::outbound::delivery::DeliveryAdapter;
use crate::worker::session_filter::Focus;

/// What an engine is built from. [`EngineDeps::new`] takes what every engine needs; the other fields start empty.
pub struct EngineDeps {
    /// The database.
    pub store: Store,
    /// Builds the agents of runs.
    pub agents: Arc<dyn Agents>,
    /// The clock and the source of ids.
    pub env: Env,
    /// The channels that answers are sent over, by the names that routings use.
    pub channels: HashMap<String, Arc<dyn DeliveryAdapter>>,
    /// Knows whether the workspace of a resumed run is intact. Without it every workspace counts as intact.
    pub workspaces: Option<Arc<dyn Workspaces>>,
}

impl EngineDeps {
    /// The dependencies of an engine that nothing outside the database listens to.
    pub fn new(store: Store, agents: impl Agents, env: Env) -> Self {
        Self { store, agents: Arc::new(agents), env, channels: HashMap::new(), workspaces: None }
    }
}

/// How an engine works; every number has a default.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Which runs its workers take.
    pub pool: String,
    /// The sessions its workers serve; all of them if none are named.
    pub focus: Option<Focus>,
    /// Runs at work at once in this process.
    pub capacity: usize,
    /// How long a lease lasts without a word.
    pub lease: Duration,
    /// How often leases are renewed.
    pub heartbeat: Duration,
    /// How often is looked for work that no hint told of.
    pub poll: Duration,
    /// How long a run may take to stop before it is dropped.
    pub grace: Duration,
    /// What is done about an opaque effect whose outcome is unknown.
    pub on_unknown: OnUnknown,
    /// How many runs may be below others.
    pub children: ChildLimits,
    /// How long one attempt may take, unless its agent says otherwise.
    pub attempt_timeout: Option<Duration>,
    /// How long an attempt may be without any sign of life while no tool runs, unless its agent says otherwise.
    pub silence: Option<Duration>,
    /// How long a person has to decide, if it is not the default.
    pub approval_expiry: Option<Duration>,
    /// What counts when nobody says whether a call may run.
    pub fallback: Fallback,
    /// When a service that crashes again and again starts without its work; for services that are started again by
    /// themselves.
    pub boot_guard: Option<BootGuard>,
    /// How long what is over is kept.
    pub retention: Retention,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            pool: "default".to_owned(),
            focus: None,
            capacity: 64,
            lease: LEASE_TTL,
            heartbeat: LEASE_HEARTBEAT,
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(20),
            on_unknown: OnUnknown::default(),
            children: ChildLimits::default(),
            attempt_timeout: None,
            // Beyond what model clients wait for by themselves.
            silence: Some(Duration::from_secs(600)),
            approval_expiry: None,
            fallback: Fallback::default(),
            boot_guard: None,
            retention: Retention::default(),
        }
    }
}
