//! One process of the simulation: its own connection to the database, its own faults, and a worker that can be killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use provost_core::Env;
use provost_core::recovery::UnknownEffectPolicy;
use provost_engine::{AgentProvider, Engine, EngineDeps, EngineOptions, Worker};
use provost_store::{
    Durability, FaultInjector, FaultPoint, Store, StoreError, StoreOptions, ThreadMode,
};
use provost_tool::GuardServices;

/// A process that may be running.
pub(crate) struct Node {
    pub(crate) engine: Engine,
    pub(crate) worker: Option<Worker>,
    cut_off: Arc<AtomicBool>,
}

/// How often the disk fails, out of a thousand.
const DISK_ERRORS: u64 = 4;

impl Node {
    pub(crate) fn new(
        path: &std::path::Path,
        env: &Env,
        agents: impl AgentProvider,
        chaos: &Arc<AtomicBool>,
    ) -> Self {
        let cut_off = Arc::new(AtomicBool::new(false));
        let options = StoreOptions {
            env: env.clone(),
            thread_mode: ThreadMode::Inline,
            durability: Durability::ProcessExit,
            check_transactions: true,
            faults: Some(faults(env.clone(), Arc::clone(&cut_off), Arc::clone(chaos))),
            ..StoreOptions::new(path)
        };
        let store = Store::open(options).expect("the database opens");
        let options = EngineOptions {
            capacity: 4,
            lease: Duration::from_secs(3),
            heartbeat: Duration::from_secs(1),
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(2),
            on_unknown: UnknownEffectPolicy::ALL[(env.random() % 3) as usize],
            ..EngineOptions::default()
        };
        Self {
            engine: Engine::new(
                EngineDeps::new(store, agents, GuardServices::default(), env.clone()),
                options,
            ),
            worker: None,
            cut_off,
        }
    }

    /// Starts the worker if it does not run; a disk error may prevent it.
    pub(crate) async fn start(&mut self) {
        if self.worker.is_none() {
            self.worker = self.engine.start().await.ok();
        }
    }

    /// The process is gone from one moment to the next.
    pub(crate) fn kill(&mut self) {
        self.worker = None;
    }

    /// The database cannot be reached for a while; the process goes on and does not know.
    pub(crate) fn cut_off(&self, cut_off: bool) {
        self.cut_off.store(cut_off, Ordering::SeqCst);
    }
}

fn faults(env: Env, cut_off: Arc<AtomicBool>, chaos: Arc<AtomicBool>) -> FaultInjector {
    FaultInjector::new(move |point| {
        let detail = || "simulated".to_owned();
        if cut_off.load(Ordering::SeqCst) && matches!(point, FaultPoint::Begin | FaultPoint::Read) {
            return Some(StoreError::Busy { detail: detail() });
        }
        if !chaos.load(Ordering::SeqCst) || env.random() % 1000 >= DISK_ERRORS {
            return None;
        }
        Some(match point {
            FaultPoint::Begin | FaultPoint::Read => StoreError::Busy { detail: detail() },
            FaultPoint::Commit => StoreError::DiskFull { detail: detail() },
            FaultPoint::AfterCommit => StoreError::Io { detail: detail() },
        })
    })
}
