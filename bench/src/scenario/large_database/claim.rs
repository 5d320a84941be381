//! Time to claim a run with few and with many queued runs.
//!
//! The concurrency target of the class limits the claims: it is raised by one for each measurement. The measurement
//! ends when a worker has claimed and loaded the run and requests its agent. The runs never end, so no other write
//! happens.

use std::path::Path;
use std::time::{Duration, Instant};

use provost_agent::Agent;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunPhase;
use provost_core::scheduling::ExecutionClassKey;
use provost_engine::{AgentRevision, Engine, EngineError, Lease, Worker};
use provost_model::{ScriptedModel, text};
use tokio::sync::mpsc;

use crate::measure::{Pairs, median, percentile, within};
use crate::table::{Table, Unit};
use crate::{Plan, Result, disk, engine};

/// Fills a database.
pub(super) const FILL: &str = "fill-queued";
const RATIO_MAX: f64 = 2.0;
/// Claims that are not counted.
const WARM_UP: usize = 20;
/// Timeout of a claim.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn measure(plan: Plan, dir: &Path, table: &mut Table) -> Result<()> {
    let claims = plan.pick(1000, 100);
    let (many, few) = (plan.pick(100_000, 10_000), 1000);
    let (many_dir, few_dir) = (disk::fresh(dir)?, disk::fresh(dir)?);
    for (dir, count) in [(&many_dir, many), (&few_dir, few)] {
        // Minimum number of queued runs until the last claim.
        super::finish(FILL, dir.path(), count + claims + WARM_UP)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (with_many, with_few) = runtime.block_on(async {
        let (mut of_many, mut of_few) =
            (ClaimGate::open(many_dir.path()).await?, ClaimGate::open(few_dir.path()).await?);
        let (mut with_many, mut with_few) = (Vec::new(), Vec::new());
        for claim in 0..claims + WARM_UP {
            let (slow, fast) = (of_many.claim().await?, of_few.claim().await?);
            if claim >= WARM_UP {
                with_many.push(slow);
                with_few.push(fast);
            }
        }
        of_many.close().await;
        of_few.close().await;
        Ok::<_, crate::Error>((with_many, with_few))
    })?;
    let (many, few) = (super::grouped(many), super::grouped(few));
    let (mut tail, mut middle) = (Pairs::default(), Pairs::default());
    middle.push(median(with_many.clone()), median(with_few.clone()));
    tail.push(percentile(with_many, 0.99), percentile(with_few, 0.99));
    let what = format!("{many} queued runs: claim of one, p99, against {few}");
    table.ratio_at_most(&what, Unit::Time, &tail, RATIO_MAX);
    let what = format!("{many} queued runs: claim of one, median, against {few}");
    table.compare_only(&what, Unit::Time, &middle);
    Ok(())
}

fn agent_that_hangs() -> Result<Agent> {
    let model = ScriptedModel::from_fn(|_, _| text("Well").hang());
    Ok(Agent::builder("adder", model.without_recording()).build()?)
}

/// Stores one queued run and its copies.
pub(super) async fn fill(dir: &Path, count: usize) -> Result<()> {
    let engine = super::open_engine(dir, agent_that_hangs()?).await?;
    let original = super::original(&engine, RunPhase::Queued).await?;
    original.multiply(engine.store(), count.saturating_sub(1)).await?;
    super::close(engine.store()).await
}

/// An engine that claims one run per raised target.
struct ClaimGate {
    engine: Engine,
    worker: Worker,
    class: ExecutionClassKey,
    claimed: mpsc::UnboundedReceiver<Instant>,
    open: u64,
}

impl ClaimGate {
    async fn open(dir: &Path) -> Result<Self> {
        let (sender, claimed) = mpsc::unbounded_channel();
        let agent = agent_that_hangs()?;
        let agents = move |_: &AgentRevision, _: &Lease| {
            // The receiver is dropped after the measurement.
            let _sent = sender.send(Instant::now()).is_ok();
            Ok::<_, EngineError>(agent.clone())
        };
        let engine = engine::open(dir, usize::MAX, agents).await?;
        engine::widen(&engine, 0).await?;
        let classes = engine::classes(&engine).await?;
        let class = classes.into_iter().next().ok_or("the queued runs have no class")?;
        let worker = engine.start().await?;
        Ok(Self { engine, worker, class, claimed, open: 0 })
    }

    /// Returns the seconds from raising the target to a claimed and loaded run.
    async fn claim(&mut self) -> Result<f64> {
        self.open += 1;
        let namespace = Namespace::default();
        self.engine.classes().set_target(&namespace, &self.class, self.open).await?;
        let started = Instant::now();
        let claimed = within(TIMEOUT, "no run was claimed", self.claimed.recv()).await?;
        let claimed = claimed.ok_or("the engine is gone")?;
        Ok(claimed.saturating_duration_since(started).as_secs_f64())
    }

    async fn close(self) {
        self.worker.stop(Duration::ZERO).await;
        self.engine.store().close().await;
    }
}
