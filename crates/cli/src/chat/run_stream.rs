//! The events of one run as they happen, and what a person does about them: answer a question, cancel the run.
//!
//! Invariant: a future of [`RunStream::next`] that is dropped loses no event.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use provost_api::{Answer, ApprovalList, Client, Decision, EventStream, StreamItem, Watch};
use provost_core::lifecycle::{ApprovalKind, RunPhase};
use provost_core::{ApprovalDecision, ApprovalId, ErrorKind, Event, EventKind, RunId};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::event_fold::EventFold;
use crate::problem::Problem;

/// Events that wait to be shown; the rest stays where it is.
const EVENTS_WAITING_MAX: usize = 256;

/// The events of a run, from its beginning to its end.
pub(crate) struct RunStream {
    client: Client,
    run: RunId,
    events: mpsc::Receiver<Result<Event, Problem>>,
    /// A failure that was received and not told yet.
    problem: Option<Problem>,
    questions: Questions,
    watcher: AbortHandle,
}

/// What the run asks.
#[derive(Clone, Default)]
struct Questions(Arc<Mutex<HashMap<ApprovalId, Question>>>);

/// A question of the run.
#[derive(Clone)]
struct Question {
    tool: String,
    /// True if it wants an answer in words.
    in_words: bool,
}

impl Questions {
    fn insert(&self, id: ApprovalId, question: Question) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, question);
    }

    fn get(&self, id: ApprovalId) -> Option<Question> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }
}

impl RunStream {
    /// Follows a run of an agent. `deltas` adds the pieces of answers as the model writes them.
    ///
    /// A task of its own reads the stream, so that a reader can stop to wait at any moment.
    pub(crate) fn new(client: &Client, run: RunId, agent: &str, deltas: bool) -> Self {
        let (sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
        let questions = Questions::default();
        let watcher = Watcher {
            client: client.clone(),
            run,
            stream: client.watch_run(run, Watch { deltas, ..Watch::default() }),
            fold: EventFold::new(run, agent),
            asked: HashSet::new(),
            last_event: 0,
            questions: questions.clone(),
            sender,
        };
        let watcher = tokio::spawn(watcher.watch()).abort_handle();
        Self { client: client.clone(), run, events, problem: None, questions, watcher }
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

    /// The tool that a question is about.
    pub(crate) fn tool(&self, id: ApprovalId) -> Option<String> {
        self.questions.get(id).map(|question| question.tool)
    }

    /// True if a question wants an answer in words.
    pub(crate) fn wants_words(&self, id: ApprovalId) -> bool {
        self.questions.get(id).is_some_and(|question| question.in_words)
    }

    /// Answers a question with yes or no. The first answer counts.
    pub(crate) async fn decide(
        &self,
        id: ApprovalId,
        decision: ApprovalDecision,
    ) -> Result<(), Problem> {
        let (decision, text) = match decision {
            ApprovalDecision::Approve | ApprovalDecision::ApprovedBy { .. } => {
                (Decision::Approve, None)
            }
            ApprovalDecision::Deny { reason } => {
                (Decision::Deny, Some(reason).filter(|reason| !reason.is_empty()))
            }
        };
        self.answer(id, Answer { decision, text, grant: None }).await
    }

    /// Answers a question in words. The first answer counts.
    pub(crate) async fn reply(&self, id: ApprovalId, text: String) -> Result<(), Problem> {
        self.answer(id, Answer { decision: Decision::Answer, text: Some(text), grant: None }).await
    }

    async fn answer(&self, id: ApprovalId, answer: Answer) -> Result<(), Problem> {
        match self.client.answer(id, &answer).await {
            // Another answer was first, or it has expired: an event tells what counts.
            Err(error) if error.kind() != ErrorKind::Conflict => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Stops the run for good; its last event follows.
    pub(crate) async fn cancel(&self) -> Result<(), Problem> {
        Ok(self.client.cancel_run(self.run).await.map(drop)?)
    }

    /// Stops the run and waits until it has ended, but not longer than this.
    pub(crate) async fn end(mut self, timeout: std::time::Duration) {
        if self.cancel().await.is_ok() {
            let drain = async { while matches!(self.next().await, Ok(Some(_))) {} };
            tokio::time::timeout(timeout, drain).await.ok();
        }
    }
}

impl Drop for RunStream {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

/// Reads the stream of a run.
struct Watcher {
    client: Client,
    run: RunId,
    stream: EventStream,
    fold: EventFold,
    asked: HashSet<ApprovalId>,
    /// The number of the last event that the run is known to have.
    last_event: u64,
    questions: Questions,
    sender: mpsc::Sender<Result<Event, Problem>>,
}

impl Watcher {
    /// Sends everything until the run is over or the reader is gone.
    async fn watch(mut self) {
        while !self.fold.is_over() {
            match self.advance().await {
                Ok(Some(events)) => {
                    for event in events {
                        if self.sender.send(Ok(event)).await.is_err() {
                            return;
                        }
                    }
                }
                Ok(None) => return,
                Err(problem) => {
                    self.sender.send(Err(problem)).await.ok();
                    return;
                }
            }
        }
    }

    /// The events of the next item; `None` at the end of the stream.
    async fn advance(&mut self) -> Result<Option<Vec<Event>>, Problem> {
        let Some(item) = self.stream.next().await? else { return Ok(None) };
        let logged = match &item {
            StreamItem::Event { event, .. } => Some((event.seq, event.at.0)),
            _ => None,
        };
        let mut events = self.fold.feed(item)?;
        for event in &events {
            if let EventKind::ApprovalDecided { id, .. } = &event.kind
                && let Some(tool) = self.fold.tool(*id).cloned()
            {
                self.questions.insert(*id, Question { tool, in_words: false });
            }
        }
        if let Some((seq, at)) = logged.filter(|_| self.fold.is_parked()) {
            for kind in self.open_questions(seq).await? {
                events.push(self.fold.event(at, kind));
            }
        }
        Ok(Some(events))
    }

    /// What a run asks that waits. One that asks nothing waits for something else. A question of the past is not asked again:
    /// only the last event of the log tells how the run stands.
    async fn open_questions(&mut self, seq: u64) -> Result<Vec<EventKind>, Problem> {
        if seq < self.last_event {
            return Ok(Vec::new());
        }
        let run = self.client.run(self.run).await?;
        self.last_event = run.events;
        if seq < run.events || run.phase != RunPhase::Parked {
            return Ok(Vec::new());
        }
        let list = ApprovalList { run: Some(self.run), ..ApprovalList::default() };
        let open = self.client.approvals(&list).await?.items;
        if open.is_empty() {
            return Ok(vec![EventKind::Suspended { approvals: Vec::new() }]);
        }
        let mut asked = Vec::new();
        for approval in open.into_iter().rev() {
            if self.asked.insert(approval.id) {
                let in_words = approval.kind == ApprovalKind::Question;
                let tool = approval.request.call.name.clone();
                self.questions.insert(approval.id, Question { tool, in_words });
                asked.push(EventKind::ApprovalNeeded { request: Box::new(approval.request) });
            }
        }
        Ok(asked)
    }
}
