//! Children in this process: tasks of the runtime that live no longer than the run above them.

mod arrivals;
mod ended;
mod kept;
mod known;
mod lane;
mod line;
mod used;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use provost_core::work::EffectKey;
use provost_core::{AgentUsed, RunId};
use provost_tool::{ToolCx, ToolError};
use tokio_util::sync::CancellationToken;

use self::arrivals::Arrivals;
use self::ended::Ended;
use self::kept::Kept;
use self::known::Known;
use self::line::Line;
use super::{ChildAsk, ChildFuture, ChildLife, ChildReport, ChildStarted, Children, Until};
use crate::approval::OnApproval;
use crate::drive::Cx;

/// How long the end of a run waits for children that were told to stop.
const CLOSE_WAIT: Duration = Duration::from_secs(10);

/// The children of one run.
pub(crate) struct LocalChildren {
    /// Weak: a child that outlives its run must not keep it alive. It changes when the conversation changes hands.
    parent: Mutex<Weak<Cx>>,
    known: Mutex<Known>,
    arrivals: Arrivals,
}

struct Child {
    /// The call that asked for it and its place there.
    key: (EffectKey, u32),
    life: ChildLife,
    /// Stops it; those that live no longer than their call stop together.
    cancel: Arc<CancellationToken>,
    started: ChildStarted,
    /// What came of it so far.
    ended: Ended,
    /// The run keeps it and goes on with it later.
    is_kept: bool,
    /// Its end was told to the run above, which counts what it used.
    is_told: bool,
}

impl Child {
    fn new(
        key: (EffectKey, u32),
        life: ChildLife,
        cancel: Arc<CancellationToken>,
        started: ChildStarted,
    ) -> Self {
        let ended = Ended::not_yet();
        Self { key, life, cancel, started, ended, is_kept: false, is_told: false }
    }

    /// One of which there is a report.
    fn of_report(
        key: (EffectKey, u32),
        life: ChildLife,
        cancel: Arc<CancellationToken>,
        report: ChildReport,
    ) -> Self {
        let started = report.started();
        Self { ended: Ended::of_report(report), ..Self::new(key, life, cancel, started) }
    }

    /// True if it ends with the run at the latest.
    fn is_bound(&self) -> bool {
        self.life != ChildLife::Detached
    }

    fn is_over(&self) -> bool {
        self.ended.status.is_over()
    }

    /// True if nothing comes of it for now: it is over, or waits for a person.
    fn is_settled(&self) -> bool {
        self.is_over() || self.ended.is_suspended()
    }

    fn report(&self) -> ChildReport {
        let ChildStarted { run, label, agent } = self.started.clone();
        let Ended { status, text, used, .. } = &self.ended;
        ChildReport {
            run,
            label,
            agent,
            status: *status,
            text: text.clone(),
            error: self.ended.error().cloned(),
            limit: self.ended.limit().cloned(),
            used: used.clone(),
        }
    }

    /// The report for the run above. What was used is in the first one after the end: it is counted once.
    fn tell(&mut self) -> ChildReport {
        self.is_told = self.is_over();
        let used = std::mem::take(&mut self.ended.used);
        ChildReport { used, ..self.report() }
    }
}

impl LocalChildren {
    pub(crate) fn new(parent: Weak<Cx>) -> Self {
        Self { parent: Mutex::new(parent), known: Mutex::default(), arrivals: Arrivals::default() }
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
            bound.all(|child| child.is_kept || child.is_over()).then_some(())
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
        self.arrivals.close();
        let known = self.lock();
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
    ) -> Result<Vec<ChildStarted>, ToolError> {
        let mut line = Line::new(cx, Arc::clone(self), self.parent()?, at_once);
        let mut known = self.lock();
        let is_new = known.make_room(cx.effect_key(), asks.len());
        // The first ones work while the others are put in line. Where one cannot be started those before it are known and may be
        // waited for.
        let add = |ask: ChildAsk| {
            let again = if is_new { None } else { known.of_call(cx.effect_key(), ask.index) };
            match again {
                Some(child) => Ok(child.started.clone()),
                None => known.add(&mut line, kept.remove(&ask.index), ask),
            }
        };
        asks.into_iter().map(add).collect()
    }

    /// What children used that their calls waited for, under the name of one of them, since it was last asked.
    pub(crate) fn take_used(&self) -> Option<(RunId, Vec<AgentUsed>)> {
        self.arrivals.take_used()
    }

    /// Waits until what is known gives something.
    async fn until<T>(&self, mut ready: impl FnMut(&Known) -> Option<T>) -> T {
        loop {
            // Listening starts before looking, so a change in between is not missed.
            let changed = self.arrivals.changed().notified();
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
        let places = self.lock().places(runs)?;
        let over = self.settled(&places, until.any);
        match until.timeout {
            // What has not ended by then goes on; that is no failure.
            Some(timeout) => drop(tokio::time::timeout(timeout, over).await.is_ok()),
            None => over.await,
        }
        self.hand_up(cx, &places).await?;
        let mut known = self.lock();
        let mut reports = Vec::with_capacity(places.len());
        for place in places {
            reports.extend(known.at_mut(place).map(Child::tell));
        }
        Ok(reports)
    }

    /// Waits until all of these are settled; if one is enough, until one is over.
    async fn settled(&self, places: &[usize], any: bool) {
        loop {
            let done = {
                let known = self.lock();
                let Some(open) = known.open(places, any) else { return };
                self.arrivals.after(open)
            };
            // Others may have ended in place of these; then there is less to wait for the next time.
            done.notified().await;
        }
    }

    /// What is known, with everything that has arrived.
    fn lock(&self) -> MutexGuard<'_, Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (place, ended) in self.arrivals.take() {
            if let Some(child) = known.at_mut(place) {
                child.ended = ended;
            }
        }
        known
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
    ) -> ChildFuture<'a, Vec<ChildStarted>> {
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
        let labelled = known.iter_mut().filter(|child| child.started.label.is_some());
        let labelled = labelled.map(Child::tell).collect();
        std::future::ready(Ok(labelled)).boxed()
    }

    fn stop<'a>(&'a self, cx: &'a ToolCx, run: RunId) -> ChildFuture<'a, ChildReport> {
        async move {
            self.0.lock().stop(run);
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
