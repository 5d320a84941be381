//! One turn of a conversation as a stream of events, wherever and whenever it is worked on.
//!
//! What this process does is shown as it happens. What another process does, or did before, comes from the run's log. The end
//! of a turn is told once it is in the database, so whoever heard it finds the same when they look again.
//!
//! Invariant: [`Turn::next`] loses nothing if it is dropped while it waits, however often that is.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use provost_bus::{Subscription, Topic, Wakeup};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{LOCAL_PRINCIPAL, RunPhase, RunStatus};
use provost_core::{
    ApprovalDecision, ApprovalId, EVENT_VERSION, Env, ErrorKind, Event, EventKind, RunId,
};
use provost_engine::{Engine, EngineError, Follow, RunView};
use provost_host::agent::AGENT;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::data::engine_problem;
use crate::problem::Problem;

/// How often is looked at what other processes do.
const POLL: Duration = Duration::from_millis(500);

/// Events that wait to be shown; the rest stays where it is.
const EVENTS_WAITING_MAX: usize = 256;

/// A turn.
pub(crate) struct Turn {
    engine: Engine,
    namespace: Namespace,
    run: RunId,
    events: mpsc::Receiver<Result<Event, Problem>>,
    /// What went wrong and was not told yet.
    problem: Option<Problem>,
    /// Questions that were settled, with the tool they are about.
    decided: Decided,
    watching: AbortHandle,
}

type Decided = Arc<Mutex<HashMap<ApprovalId, String>>>;

impl Turn {
    /// A turn of a run, from its beginning. It is watched in a task of its own, so that whoever waits for an event can stop
    /// waiting at any moment without setting anything back.
    pub(crate) fn new(engine: &Engine, namespace: &Namespace, run: RunId) -> Self {
        let (sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
        let decided = Decided::default();
        let course = Course::new(engine, namespace, run, &decided);
        let watching = tokio::spawn(course.tell_all(sender)).abort_handle();
        let (engine, namespace) = (engine.clone(), namespace.clone());
        Self { engine, namespace, run, events, problem: None, decided, watching }
    }

    /// The next event; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Problem> {
        match self.problem.take() {
            Some(problem) => Err(problem),
            None => self.events.recv().await.transpose(),
        }
    }

    /// The next event if it is there already.
    pub(crate) fn next_ready(&mut self) -> Option<Event> {
        match self.events.try_recv().ok()? {
            Ok(event) => Some(event),
            Err(problem) => {
                self.problem = Some(problem);
                None
            }
        }
    }

    /// The tool that a settled question is about.
    pub(crate) fn decided_tool(&self, id: ApprovalId) -> Option<String> {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// Answers a question; the first answer counts, whoever gives it.
    pub(crate) async fn decide(
        &self,
        id: ApprovalId,
        decision: ApprovalDecision,
    ) -> Result<(), Problem> {
        match self.engine.approvals().answer(&self.namespace, id, decision, LOCAL_PRINCIPAL).await {
            // Somebody was faster, or it has expired: what counts is told as an event.
            Err(error) if error.kind() != ErrorKind::Conflict => Err(engine_problem(&error)),
            _ => Ok(()),
        }
    }

    /// Stops it for good; its last event follows.
    pub(crate) async fn cancel(&self) -> Result<(), Problem> {
        let cancelled = self.engine.runs().cancel(&self.namespace, self.run).await;
        cancelled.map(drop).map_err(|error| engine_problem(&error))
    }

    /// Stops it and waits until it has ended in order. It does not wait long.
    pub(crate) async fn end(mut self, patience: Duration) {
        if self.cancel().await.is_ok() {
            let drain = async { while matches!(self.next().await, Ok(Some(_))) {} };
            tokio::time::timeout(patience, drain).await.ok();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// A turn as it is watched.
struct Course {
    engine: Engine,
    namespace: Namespace,
    run: RunId,
    follow: Follow,
    hints: Subscription,
    env: Env,
    /// What is told next.
    ready: VecDeque<Event>,
    /// An event of an attempt in this process that was not looked at yet.
    incoming: Option<Event>,
    /// How the attempt in this process ended; told once the database agrees.
    ending: Option<EventKind>,
    /// The last number of the log that was read.
    read: u64,
    /// The attempts that were watched live: their part of the log is known.
    watched: BTreeSet<u64>,
    asked: HashSet<ApprovalId>,
    decided: Decided,
    is_parked: bool,
    is_over: bool,
    next_seq: u64,
}

impl Course {
    fn new(engine: &Engine, namespace: &Namespace, run: RunId, decided: &Decided) -> Self {
        Self {
            engine: engine.clone(),
            namespace: namespace.clone(),
            run,
            follow: engine.runs().follow(namespace, run),
            hints: engine.store().bus().subscribe(Topic::Wakeups),
            env: Env::system(),
            ready: VecDeque::new(),
            incoming: None,
            ending: None,
            read: 0,
            watched: BTreeSet::new(),
            asked: HashSet::new(),
            decided: Arc::clone(decided),
            is_parked: false,
            is_over: false,
            next_seq: 0,
        }
    }

    /// Tells everything until it is over or nobody listens.
    async fn tell_all(mut self, sender: mpsc::Sender<Result<Event, Problem>>) {
        loop {
            let told = match self.advance().await {
                Ok(Some(event)) => sender.send(Ok(event)).await,
                Ok(None) => return,
                Err(error) => {
                    sender.send(Err(engine_problem(&error))).await.ok();
                    return;
                }
            };
            if told.is_err() {
                return;
            }
        }
    }

    async fn advance(&mut self) -> Result<Option<Event>, EngineError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                let seq = self.next_seq;
                self.next_seq += 1;
                return Ok(Some(Event { seq, ..event }));
            }
            if self.is_over {
                return Ok(None);
            }
            if self.incoming.is_some() {
                self.take_live().await?;
            } else if self.is_parked {
                self.change().await;
                self.look(/*is_at_rest*/ true).await?;
            } else {
                self.watch().await?;
            }
        }
    }

    /// Waits for news of the run, from here or from elsewhere.
    async fn watch(&mut self) -> Result<(), EngineError> {
        let event = tokio::select! {
            event = self.follow.next() => Some(event?),
            () = tokio::time::sleep(POLL) => None,
        };
        match event {
            Some(Some(event)) => {
                self.incoming = Some(event);
                Ok(())
            }
            Some(None) => self.look(/*is_at_rest*/ true).await,
            None => self.look(/*is_at_rest*/ false).await,
        }
    }

    /// Tells a live event, after what earlier attempts said.
    async fn take_live(&mut self) -> Result<(), EngineError> {
        let epoch = self.follow.epoch();
        if !self.watched.contains(&epoch) {
            self.look(/*is_at_rest*/ false).await?;
            self.watched.insert(epoch);
        }
        let Some(event) = self.incoming.take() else { return Ok(()) };
        match event.kind {
            // Asked when it waits in the database, where it can be answered.
            EventKind::ApprovalNeeded { .. } => {}
            kind if kind.is_terminal() => self.ending = Some(kind),
            _ => self.ready.push_back(event),
        }
        Ok(())
    }

    /// Reads on in the log, and finds out where the run stands if nothing works on it here.
    async fn look(&mut self, is_at_rest: bool) -> Result<(), EngineError> {
        let view = self.engine.runs().view(&self.namespace, self.run, self.read).await?;
        self.read = view.last;
        let live = self.follow.epoch();
        for told in &view.events {
            if told.epoch != live && !self.watched.contains(&told.epoch) {
                self.tell(told.kind.clone());
            }
        }
        self.tell_decisions(&view);
        if !is_at_rest {
            return Ok(());
        }
        if let Some(status) = view.ended() {
            let matching = self.ending.take().filter(|kind| is_ending(kind, status));
            if let Some(kind) = matching.or_else(|| view.ending()) {
                self.tell(kind);
            }
            self.is_over = true;
            return Ok(());
        }
        self.is_parked = view.run.phase == RunPhase::Parked.as_str();
        if self.is_parked {
            self.ending = None;
            self.tell_questions(&view);
        } else if let Some(EventKind::Failed { error }) = self.ending.take() {
            let message = format!("{}; it is tried again", error.message);
            self.tell(EventKind::Warning { message });
        }
        Ok(())
    }

    fn tell_decisions(&mut self, view: &RunView) {
        for question in &view.questions {
            let id = question.request.id;
            let Some(decision) = &question.decision else { continue };
            let tool = question.request.call.name.clone();
            let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
            let is_new = decided.insert(id, tool).is_none();
            drop(decided);
            if is_new {
                self.tell(EventKind::ApprovalDecided { id, decision: decision.clone() });
            }
        }
    }

    /// Asks what the run waits for. One that waits for something else cannot be waited for here.
    fn tell_questions(&mut self, view: &RunView) {
        let mut has_open = false;
        for question in view.questions.iter().filter(|question| question.is_open) {
            has_open = true;
            if self.asked.insert(question.request.id) {
                let request = Box::new(question.request.clone());
                self.tell(EventKind::ApprovalNeeded { request });
            }
        }
        if !has_open {
            self.tell(EventKind::Suspended { approvals: Vec::new() });
            self.is_over = true;
        }
    }

    fn tell(&mut self, kind: EventKind) {
        self.ready.push_back(Event {
            v: EVENT_VERSION,
            run_id: self.run,
            seq: 0,
            at: self.env.now(),
            agent: AGENT.into(),
            kind,
        });
    }

    /// Waits until something may have changed for a run that waits for people.
    async fn change(&mut self) {
        let run = self.run;
        let about = |wakeup| [Wakeup::Approval(run), Wakeup::Events(run)].contains(&wakeup);
        self.hints.woken_or_after(POLL, about).await;
    }
}

/// True if the last event of an attempt is how the run ended.
fn is_ending(kind: &EventKind, status: RunStatus) -> bool {
    match status {
        RunStatus::Ok => matches!(kind, EventKind::Finished { .. }),
        RunStatus::Cancelled => matches!(kind, EventKind::Cancelled),
        RunStatus::Error => matches!(kind, EventKind::Failed { .. } | EventKind::Denied { .. }),
        RunStatus::Accepted | RunStatus::Running | RunStatus::Timeout => false,
    }
}
