//! What a node is told when it is started.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use provost_core::Env;
use provost_core::recovery::UnknownEffectPolicy;
use provost_engine::EngineOptions;
use provost_store::{FaultPoint, Faults, StoreError, StoreOptions};

/// A node of the tests.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// The database file.
    #[arg(long)]
    pub(crate) db: PathBuf,
    /// Where the model is.
    #[arg(long, default_value = "http://127.0.0.1:9/v1")]
    pub(crate) model_url: String,
    /// Where the ledger is.
    #[arg(long, default_value = "http://127.0.0.1:9")]
    pub(crate) ledger_url: String,
    /// How long a lease lasts.
    #[arg(long, default_value_t = 30_000)]
    lease_ms: u64,
    /// How often leases are renewed.
    #[arg(long, default_value_t = 100)]
    heartbeat_ms: u64,
    /// How often is looked for work that no hint told of.
    #[arg(long, default_value_t = 20)]
    poll_ms: u64,
    /// How long a run may take to stop.
    #[arg(long, default_value_t = 20_000)]
    grace_ms: u64,
    /// Runs at work at once.
    #[arg(long, default_value_t = 64)]
    capacity: usize,
    /// What is done about an opaque effect whose outcome is unknown.
    #[arg(long, default_value = "surface")]
    on_unknown: UnknownEffectPolicy,
    /// How long a person has to decide.
    #[arg(long)]
    approval_expiry_ms: Option<u64>,
    /// How wrong the clock of this process is.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    clock_ms: i64,
    /// How far the clock of the database is ahead: the same for all who use it.
    #[arg(long, default_value_t = 0)]
    database_clock_ms: i64,
    /// The tools are declared ones, behind rules, credentials and records.
    #[arg(long)]
    pub(crate) governed: bool,
    /// As long as this file is there, the disk is full.
    #[arg(long)]
    full_while: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What a node does.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Works until its input is closed or it is asked to end.
    Work {
        /// How long it waits for what is under way when it is asked to end.
        #[arg(long, default_value_t = 10_000)]
        patience_ms: u64,
    },
    /// Accepts a command, given as JSON.
    Accept { command: String },
    /// Cancels a run.
    Cancel { run: String },
    /// Answers a question: `approve` or `deny`.
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

    /// The clock of this process, which decides nothing that others must agree on.
    pub(crate) fn env(&self) -> Env {
        Env::with_clock_offset(self.database_clock_ms + self.clock_ms)
    }

    pub(crate) fn store(&self) -> StoreOptions {
        let mut options = StoreOptions::new(&self.db);
        options.env = Env::with_clock_offset(self.database_clock_ms);
        options.faults = self.full_while.clone().map(|path| {
            Faults::new(move |point| {
                let is_full = point == FaultPoint::Begin && path.exists();
                is_full.then(|| StoreError::Full { detail: "a test fills the disk".to_owned() })
            })
        });
        options
    }
}
