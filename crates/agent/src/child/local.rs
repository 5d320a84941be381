//! Children in this process: tasks of the runtime that live no longer than the run above them.

mod ended;
mod kept;
mod known;

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use provost_core::work::EffectKey;
use provost_core::{EventKind, RunId, StopReason};
use provost_tool::{ToolCx, ToolError};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use self::ended::Ended;
use self::kept::Kept;
use self::known::Known;
use super::{
    ChildAsk, ChildFuture, ChildLife, ChildReport, ChildStatus, Children, LABEL_PREFIX, Until,
};
use crate::approval::OnApproval;
use crate::drive::Cx;
use crate::hook::SubagentInfo;
use crate::outcome::Suspended;
use crate::request::{Below, RunBuilder};

/// How long the end of a run waits for children that were told to stop.
const CLOSE_WAIT: Duration = Duration::from_secs(10);

/// The children of one run.
pub(crate) struct LocalChildren {
    /// Weak: a child that outlives its run must not keep it alive. It changes when the conversation changes hands.
    parent: Mutex<Weak<Cx>>,
    known: Mutex<Known>,
    changed: Notify,
}

struct Child {
    /// The call that asked for it and its place there.
    key: (EffectKey, u32),
    life: ChildLife,
    cancel: CancellationToken,
    report: ChildReport,
    /// It waits for a person and its call must wait with it.
    suspended: Option<Suspended>,
    /// The run keeps it and goes on with it later.
    is_kept: bool,
}

impl Child {
    fn new(
        key: (EffectKey, u32),
        life: ChildLife,
        cancel: CancellationToken,
        report: ChildReport,
    ) -> Self {
        Self { key, life, cancel, report, suspended: None, is_kept: false }
    }
}

/// A child on its way to its end.
struct Running {
    run: RunId,
    builder: RunBuilder,
    cancel: CancellationToken,
    turn: Option<Arc<Semaphore>>,
    timeout: Option<Duration>,
    info: Option<SubagentInfo>,
    /// Its name in the team of the run above.
    member: Option<String>,
}

impl LocalChildren {
    pub(crate) fn new(parent: Weak<Cx>) -> Self {
        Self { parent: Mutex::new(parent), known: Mutex::default(), changed: Notify::new() }
    }

    /// Another agent of the same run has the conversation now.
    pub(crate) fn move_to(&self, parent: Weak<Cx>) {
        *self.parent.lock().unwrap_or_else(PoisonError::into_inner) = parent;
    }

    fn parent(&self) -> Result<Arc<Cx>, ToolError> {
        let parent = self.parent.lock().unwrap_or_else(PoisonError::into_inner);
        parent.upgrade().ok_or_else(|| ToolError::failed("the run is over"))
    }

    /// Ends what lives no longer than the run, and gives what came of everything.
    pub(crate) async fn close(&self) -> Vec<ChildReport> {
        for child in self.lock().iter().filter(|child| child.life != ChildLife::Detached) {
            child.cancel.cancel();
        }
        let ended = self.until(|known| {
            let mut bound = known.iter().filter(|child| child.life != ChildLife::Detached);
            bound.all(|child| child.is_kept || child.report.status.is_over()).then_some(())
        });
        if tokio::time::timeout(CLOSE_WAIT, ended).await.is_err() {
            tracing::warn!("a child of a run did not end when it was told to");
            // Waiting once is enough.
            self.lock().iter_mut().for_each(|child| child.is_kept = true);
        }
        self.lock().iter().map(|child| child.report.clone()).collect()
    }

    fn start_one(
        self: &Arc<Self>,
        cx: &ToolCx,
        ask: ChildAsk,
        kept: Option<Kept>,
        turn: Option<&Arc<Semaphore>>,
    ) -> Result<ChildReport, ToolError> {
        let key = (cx.effect_key().clone(), ask.index);
        if let Some(child) = self.lock().of_key(&key) {
            return Ok(child.report.clone());
        }
        let parent = self.parent()?;
        let found = parent.core.below(&ask.place).map_err(ToolError::Failed)?;
        let agent = found.core.name.to_string();
        let cancel = match ask.life {
            ChildLife::Call => cx.cancelled().child_token(),
            ChildLife::Run => parent.control.cancel.child_token(),
            ChildLife::Detached => CancellationToken::new(),
        };
        let member = ask.member().map(str::to_owned);
        let mut known = self.lock();
        let labels = known.labels();
        // A member is called by its name.
        let labelled = ask.life != ChildLife::Call && member.is_none();
        let label = labelled.then(|| format!("{LABEL_PREFIX}{}", labels + 1));
        let waiting = match kept {
            Some(Kept::Done(report)) => {
                known.push(Child::new(key, ask.life, cancel, report.clone()));
                return Ok(report);
            }
            Some(Kept::Waits(suspended)) => Some(suspended),
            None => None,
        };
        let run = waiting.as_ref().map_or_else(|| parent.env.id(), Suspended::run_id);
        let info = label.as_ref().map(|label| SubagentInfo {
            task_id: label.clone(),
            agent: agent.clone(),
            task: ask.task.clone(),
            result: None,
            duration: Duration::ZERO,
        });
        let below = Below {
            cx,
            run,
            hooks: found.hooks,
            cancel: cancel.clone(),
            label: label.clone(),
            max_turns: ask.max_turns,
            may_suspend: ask.life == ChildLife::Call,
            seat: parent.seat.as_ref().zip(member.as_ref()).map(|(seat, name)| seat.beside(name)),
        };
        let builder = RunBuilder::below(&parent, found.core, (ask.task, waiting), below);
        let report = ChildReport::begun(run, label, agent);
        known.push(Child::new(key, ask.life, cancel.clone(), report.clone()));
        drop(known);
        let (turn, timeout) = (turn.cloned(), ask.timeout);
        let running = Running { run, builder, cancel, turn, timeout, info, member };
        let this = Arc::clone(self);
        tokio::spawn(async move { this.carry(&parent, running).await }.in_current_span());
        Ok(report)
    }

    /// Carries a child to its end.
    async fn carry(&self, parent: &Arc<Cx>, running: Running) {
        let Running { run, builder, cancel, turn, timeout, info, member } = running;
        let turn = match &turn {
            Some(turn) => tokio::select! {
                biased;
                turn = turn.acquire() => turn.ok(),
                () = cancel.cancelled() => None,
            },
            None => None,
        };
        if let Some(info) = &info {
            let told = pin!(unharmed(parent, info, parent.hooks.on_subagent_start(info)));
            // A hook that hangs must not keep a child that is to end.
            futures::future::select(told, pin!(cancel.cancelled())).await;
        }
        let started = Instant::now();
        let pot = builder.pot();
        let path = builder.path();
        let deadline = timeout.map(|timeout| cancel_after(timeout, cancel.clone()));
        let outcome = builder.outcome_below().await;
        drop((turn, deadline));
        let mut ended = Ended::of(outcome, || vec![pot.used_as(&path)], &path);
        if ended.stop == Some(StopReason::Limit) && ended.limit.is_none() {
            ended.limit = pot.spent_above();
        }
        if ended.status == ChildStatus::Cancelled
            && let Some(timeout) = timeout.filter(|timeout| started.elapsed() >= *timeout)
        {
            ended.error = Some(format!("its time of {}s was over", timeout.as_secs_f64()));
        }
        if let Some(name) = member {
            parent.member_over(&name, ended.of_member(), started.elapsed()).await;
        }
        if let Some(info) = info {
            let result = match ended.status {
                ChildStatus::Completed => Ok(ended.text.clone()),
                _ => Err(ended.error.clone().unwrap_or_else(|| "it was stopped".to_owned())),
            };
            let duration = started.elapsed();
            let info = SubagentInfo { result: Some(result), duration, ..info };
            unharmed(parent, &info, parent.hooks.on_subagent_stop(&info)).await;
        }
        self.note(run, ended);
    }

    fn note(&self, run: RunId, ended: Ended) {
        let mut known = self.lock();
        if let Some(child) = known.of_run_mut(run) {
            let Ended { status, text, error, limit, used, suspended, .. } = ended;
            child.suspended = suspended;
            child.report = ChildReport { status, text, error, limit, used, ..child.report.clone() };
        }
        drop(known);
        self.changed.notify_waiters();
    }

    /// Waits until what is known gives something.
    async fn until<T>(&self, mut ready: impl FnMut(&Known) -> Option<T>) -> T {
        loop {
            // Listening starts before looking, so a change in between is not missed.
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(value) = ready(&self.lock()) {
                return value;
            }
            changed.await;
        }
    }

    async fn wait_for(
        &self,
        cx: &ToolCx,
        runs: &[RunId],
        until: Until,
    ) -> Result<Vec<ChildReport>, ToolError> {
        // Those before it are over. Whoever waits is woken by each end, so it must not look at all of them each time.
        let mut first = 0;
        let over = self.until(|known| {
            let is_over =
                |run: &RunId| known.of_run(*run).is_none_or(|child| child.report.status.is_over());
            while runs.get(first).is_some_and(is_over) {
                first += 1;
            }
            let left = runs.get(first..).unwrap_or_default();
            let enough = left.is_empty() || (until.any && (first > 0 || left.iter().any(is_over)));
            // Their call waits with them once nothing else of it is at work.
            let waits = |run: &RunId| {
                is_over(run) || known.of_run(*run).is_some_and(|child| child.suspended.is_some())
            };
            (enough || left.iter().all(waits)).then_some(())
        });
        match until.timeout {
            // What has not ended by then goes on; that is no failure.
            Some(timeout) => drop(tokio::time::timeout(timeout, over).await.is_ok()),
            None => over.await,
        }
        self.hand_up(cx, runs).await?;
        runs.iter().map(|run| self.report(*run)).collect()
    }

    fn report(&self, run: RunId) -> Result<ChildReport, ToolError> {
        let known = self.lock();
        let child = known.of_run(run);
        let unknown = || ToolError::Failed(format!("{run} is no child of this run"));
        child.map(|child| child.report.clone()).ok_or_else(unknown)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The children of a run as its tools reach them.
pub(crate) struct LocalHost(pub(crate) Arc<LocalChildren>);

impl Children for LocalHost {
    fn start<'a>(
        &'a self,
        cx: &'a ToolCx,
        asks: Vec<ChildAsk>,
        at_once: Option<usize>,
    ) -> ChildFuture<'a, Vec<ChildReport>> {
        async move {
            let turn = at_once.map(|at_once| Arc::new(Semaphore::new(at_once)));
            let mut kept = self.0.take_kept(cx, &asks).await?;
            let start = |ask: ChildAsk| {
                let kept = kept.remove(&ask.index);
                self.0.start_one(cx, ask, kept, turn.as_ref())
            };
            asks.into_iter().map(start).collect()
        }
        .boxed()
    }

    fn wait<'a>(
        &'a self,
        cx: &'a ToolCx,
        runs: Vec<RunId>,
        until: Until,
    ) -> ChildFuture<'a, Vec<ChildReport>> {
        async move { self.0.wait_for(cx, &runs, until).await }.boxed()
    }

    fn labelled<'a>(&'a self, _cx: &'a ToolCx) -> ChildFuture<'a, Vec<ChildReport>> {
        let known = self.0.lock();
        let labelled = known.iter().filter(|child| child.report.label.is_some());
        let labelled = labelled.map(|child| child.report.clone()).collect();
        std::future::ready(Ok(labelled)).boxed()
    }

    fn stop<'a>(&'a self, cx: &'a ToolCx, run: RunId) -> ChildFuture<'a, ChildReport> {
        async move {
            self.0.report(run)?;
            for child in self.0.lock().iter().filter(|child| child.report.run == run) {
                child.cancel.cancel();
            }
            let ended = self.0.wait_for(cx, &[run], Until::default()).await?;
            ended.into_iter().next().ok_or_else(|| ToolError::failed("it is gone"))
        }
        .boxed()
    }
}

/// Tells hooks of a child. One that panics is nobody's end: those who wait for the child would wait for ever.
async fn unharmed(parent: &Cx, info: &SubagentInfo, told: impl Future<Output = ()>) {
    if AssertUnwindSafe(told).catch_unwind().await.is_err() {
        let message = format!("a hook panicked when it was told of {}", info.task_id);
        parent.queue.emit(EventKind::Warning { message });
    }
}

/// Cancels after a time, unless it is dropped before.
fn cancel_after(timeout: Duration, cancel: CancellationToken) -> impl Drop {
    struct Abort(tokio::task::JoinHandle<()>);
    impl Drop for Abort {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    Abort(tokio::spawn(async move {
        tokio::time::sleep(timeout).await;
        cancel.cancel();
    }))
}

/// Who answers the questions of a child: its own agent's answer, else whoever answers those of the run above.
pub(crate) fn approval_below(
    own: Option<&OnApproval>,
    above: &OnApproval,
    may_suspend: bool,
) -> OnApproval {
    match (own.unwrap_or(above), above) {
        // Nothing waits for it that could wait for a person.
        (OnApproval::Suspend, _) if !may_suspend => OnApproval::Deny,
        // It cannot be suspended without the run above, whose questions are answered while it runs.
        (OnApproval::Suspend, above) => above.clone(),
        (other, _) => other.clone(),
    }
}
