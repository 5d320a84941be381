//! Children in this process: tasks of the runtime that live no longer than the run above them.

mod carry;
mod ended;
mod kept;
mod known;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use provost_core::RunId;
use provost_core::work::EffectKey;
use provost_tool::{ToolCx, ToolError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::carry::Line;
use self::ended::Ended;
use self::kept::Kept;
use self::known::{Known, Watch};
use super::{ChildAsk, ChildFuture, ChildLife, ChildReport, Children, Until};
use crate::approval::OnApproval;
use crate::drive::Cx;
use crate::outcome::Suspended;

/// How long the end of a run waits for children that were told to stop.
const CLOSE_WAIT: Duration = Duration::from_secs(10);

/// Children that are put in line before others may look at what is known of them.
const LOCKED_FOR: usize = 32;

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
    /// Its end was told to the run above, which counts what it used.
    is_told: bool,
    /// Those who wait for it.
    watches: Vec<Weak<Watch>>,
}

impl Child {
    fn new(
        key: (EffectKey, u32),
        life: ChildLife,
        cancel: CancellationToken,
        report: ChildReport,
    ) -> Self {
        let (suspended, watches) = (None, Vec::new());
        Self { key, life, cancel, report, suspended, is_kept: false, is_told: false, watches }
    }

    /// True if it ends with the run at the latest.
    fn is_bound(&self) -> bool {
        self.life != ChildLife::Detached
    }

    /// True if nothing comes of it for now: it is over, or waits for a person.
    fn is_settled(&self) -> bool {
        self.report.status.is_over() || self.suspended.is_some()
    }

    /// The report for the run above.
    fn tell(&mut self) -> ChildReport {
        self.is_told = self.report.status.is_over();
        self.report.clone()
    }
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

    /// Ends what lives no longer than the run, and gives what came of everything that was not told before.
    pub(crate) async fn close(&self) -> Vec<ChildReport> {
        self.stop_all();
        let ended = self.until(|known| {
            let mut bound = known.iter().filter(|child| child.is_bound());
            bound.all(|child| child.is_kept || child.report.status.is_over()).then_some(())
        });
        if tokio::time::timeout(CLOSE_WAIT, ended).await.is_err() {
            tracing::warn!("a child of a run did not end when it was told to");
            // Waiting once is enough.
            self.lock().iter_mut().for_each(|child| child.is_kept = true);
        }
        let mut known = self.lock();
        known.iter_mut().filter(|child| !child.is_told).map(Child::tell).collect()
    }

    /// Stops what lives no longer than the run.
    fn stop_all(&self) {
        let mut known = self.lock();
        known.is_closing = true;
        let at_work = known.iter().filter(|child| child.is_bound() && !child.is_settled());
        at_work.for_each(|child| child.cancel.cancel());
    }

    /// Starts those that were not started before, so many at once.
    fn start_all(
        self: &Arc<Self>,
        cx: &ToolCx,
        asks: Vec<ChildAsk>,
        at_once: Option<usize>,
        mut kept: HashMap<u32, Kept>,
    ) -> Result<Vec<ChildReport>, ToolError> {
        let mut line = Line::new(cx, Arc::clone(self), self.parent()?, at_once);
        let mut reports = Vec::with_capacity(asks.len());
        self.lock().reserve(asks.len());
        let mut asks = asks.into_iter().peekable();
        // Where one cannot be started those before it are known and may be waited for.
        while asks.peek().is_some() {
            // The first ones work while the others are put in line, and end only if nobody holds this.
            let mut known = self.lock();
            for ask in asks.by_ref().take(LOCKED_FOR) {
                let kept = kept.remove(&ask.index);
                reports.push(known.add(&mut line, ask, kept)?);
            }
        }
        Ok(reports)
    }

    fn note(&self, place: usize, ended: Ended) {
        let mut known = self.lock();
        if let Some(child) = known.at_mut(place) {
            let Ended { status, text, error, limit, used, suspended, .. } = ended;
            child.suspended = suspended;
            let report = &mut child.report;
            (report.status, report.text, report.error) = (status, text, error);
            (report.limit, report.used) = (limit, used);
            child.watches.drain(..).for_each(|watch| Watch::settled(&watch));
        }
        let is_closing = known.is_closing;
        drop(known);
        if is_closing {
            self.changed.notify_waiters();
        }
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
        let over = self.settled(runs, until.any);
        match until.timeout {
            // What has not ended by then goes on; that is no failure.
            Some(timeout) => drop(tokio::time::timeout(timeout, over).await.is_ok()),
            None => over.await,
        }
        self.hand_up(cx, runs).await?;
        runs.iter().map(|run| self.report(*run)).collect()
    }

    fn report(&self, run: RunId) -> Result<ChildReport, ToolError> {
        let unknown = || ToolError::Failed(format!("{run} is no child of this run"));
        self.lock().of_run_mut(run).map(Child::tell).ok_or_else(unknown)
    }

    /// Waits until all of these are settled; if one is enough, until one is over.
    async fn settled(&self, runs: &[RunId], any: bool) {
        loop {
            let watch = self.lock().watch(runs, any);
            match watch {
                Some(watch) => watch.done().await,
                None => return,
            }
        }
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
            let kept = self.0.take_kept(cx, &asks).await?;
            self.0.start_all(cx, asks, at_once, kept)
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
        let mut known = self.0.lock();
        let labelled = known.iter_mut().filter(|child| child.report.label.is_some());
        let labelled = labelled.map(Child::tell).collect();
        std::future::ready(Ok(labelled)).boxed()
    }

    fn stop<'a>(&'a self, cx: &'a ToolCx, run: RunId) -> ChildFuture<'a, ChildReport> {
        async move {
            if let Some(child) = self.0.lock().of_run(run) {
                child.cancel.cancel();
            }
            let ended = self.0.wait_for(cx, &[run], Until::default()).await?;
            ended.into_iter().next().ok_or_else(|| ToolError::failed("it is gone"))
        }
        .boxed()
    }
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
