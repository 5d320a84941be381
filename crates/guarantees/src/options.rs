//! Command line of a node.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use provost_core::Env;
use provost_core::recovery::UnknownEffectPolicy;
use provost_engine::EngineOptions;
use provost_store::{FaultInjector, FaultPoint, StoreError, StoreOptions};

/// A node of the tests.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// Database file.
    #[arg(long)]
    pub(crate) db: PathBuf,
    /// Base URL of the model.
    #[arg(long, default_value = "http://127.0.0.1:9/v1")]
    pub(crate) model_url: String,
    /// URL of the effect server.
    #[arg(long, default_value = "http://127.0.0.1:9")]
    pub(crate) effect_server_url: String,
    /// Duration of a lease.
    #[arg(long, default_value_t = 30_000)]
    lease_ms: u64,
    /// Interval between lease renewals.
    #[arg(long, default_value_t = 100)]
    heartbeat_ms: u64,
    /// Interval of polling for work whose wakeup was lost.
    #[arg(long, default_value_t = 20)]
    poll_ms: u64,
    /// Time that a run has to stop.
    #[arg(long, default_value_t = 20_000)]
    grace_ms: u64,
    /// Number of concurrent runs.
    #[arg(long, default_value_t = 64)]
    capacity: usize,
    /// Action for an opaque effect whose outcome is unknown.
    #[arg(long, default_value = "surface")]
    on_unknown: UnknownEffectPolicy,
    /// Time that an approver has to decide.
    #[arg(long)]
    approval_expiry_ms: Option<u64>,
    /// Offset of this process's clock.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    clock_ms: i64,
    /// Offset of the database's clock, equal for all nodes.
    #[arg(long, default_value_t = 0)]
    database_clock_ms: i64,
    /// Use declared tools with rules, credentials and records.
    #[arg(long)]
    pub(crate) governed: bool,
    /// Simulate a full disk while this file exists.
    #[arg(long)]
    full_while: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Command of a node.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a worker until the input is closed or SIGTERM arrives.
    Work {
        /// Time to drain active runs after SIGTERM.
        #[arg(long, default_value_t = 10_000)]
        drain_timeout_ms: u64,
    },
    /// Submits a task request, given as JSON.
    Accept { command: String },
    /// Cancels a run.
    Cancel { run: String },
    /// Decides an approval: `approve` or `deny`.
    Answer { approval: String, decision: String },
}

impl Options {
    pub(crate) fn engine(&self) -> EngineOptions {
        EngineOptions {
            capacity: self.capacity,
            lease: Duration::from_millis(self.lease_ms),
            heartbeat: Duration::from_millis(self.heartbeat_ms),
            poll: Duration::from_millis(self.poll_ms),
            grace: Duration::from_millis(self.grace_ms),
            on_unknown: self.on_unknown,
            approval_expiry: self.approval_expiry_ms.map(Duration::from_millis),
            ..EngineOptions::default()
        }
    }

    /// Clock of this process. Decisions that processes share use the clock of the database.
    pub(crate) fn env(&self) -> Env {
        Env::with_clock_offset(self.database_clock_ms + self.clock_ms)
    }

    pub(crate) fn store(&self) -> StoreOptions {
        let mut options = StoreOptions::new(&self.db);
        options.env = Env::with_clock_offset(self.database_clock_ms);
        options.faults = self.full_while.clone().map(|path| {
            FaultInjector::new(move |point| {
                let is_full = point == FaultPoint::Begin && path.exists();
                is_full.then(|| StoreError::DiskFull { detail: "a test fills the disk".to_owned() })
            })
        });
        options
    }
}
