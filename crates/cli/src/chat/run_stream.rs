//! The events of one run as they happen, and the actions of the user: decide an approval, cancel the run.
//!
//! Invariant: dropping the future of [`RunStream::next`] loses no event.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use provost_api::{
    ApprovalQuery, Client, Decision, DecisionRequest, EventStream, StreamItem, WatchOptions,
};
use provost_core::lifecycle::{ApprovalKind, RunPhase};
use provost_core::{ApprovalDecision, ApprovalId, ErrorKind, Event, EventKind, RunId};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::event_assembler::EventAssembler;
use crate::error::CliError;

/// Maximum number of events that wait to be shown.
const PENDING_EVENTS_MAX: usize = 256;

/// Events of a run, from its beginning to its end.
pub(crate) struct RunStream {
    client: Client,
    run: RunId,
    events: mpsc::Receiver<Result<Event, CliError>>,
    /// Error that was received and not yet returned.
    problem: Option<CliError>,
    approvals: OpenApprovals,
    watcher: AbortHandle,
}

/// Approval requests of the run.
#[derive(Clone, Default)]
struct OpenApprovals(Arc<Mutex<HashMap<ApprovalId, OpenApproval>>>);

/// Approval request of the run.
#[derive(Clone)]
struct OpenApproval {
    tool: String,
    /// True if the request expects a text answer.
    wants_text: bool,
}

impl OpenApprovals {
    fn insert(&self, id: ApprovalId, approval: OpenApproval) {
        self.0.lock().insert(id, approval);
    }

    fn get(&self, id: ApprovalId) -> Option<OpenApproval> {
        self.0.lock().get(&id).cloned()
    }
}

impl RunStream {
    /// Follows a run of an agent. `deltas` adds the parts of unfinished answers.
    ///
    /// A separate task reads the stream, so that the future of [`Self::next`] can be dropped at any time.
    pub(crate) fn new(client: &Client, run: RunId, agent: &str, deltas: bool) -> Self {
        let (sender, events) = mpsc::channel(PENDING_EVENTS_MAX);
        let approvals = OpenApprovals::default();
        let watcher = Watcher {
            client: client.clone(),
            run,
            stream: client.watch_run(run, WatchOptions { deltas, ..WatchOptions::default() }),
            assembler: EventAssembler::new(run, agent),
            emitted: HashSet::new(),
            last_event: 0,
            approvals: approvals.clone(),
            sender,
        };
        let watcher = tokio::spawn(watcher.watch()).abort_handle();
        Self { client: client.clone(), run, events, problem: None, approvals, watcher }
    }

    /// Returns the next event. `None` after the last event.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, CliError> {
        match self.problem.take() {
            Some(problem) => Err(problem),
            None => self.events.recv().await.transpose(),
        }
    }

    /// Returns the next event if it has already arrived.
    pub(crate) fn next_ready(&mut self) -> Option<Event> {
        match self.events.try_recv().ok()? {
            Ok(event) => Some(event),
            Err(problem) => {
                self.problem = Some(problem);
                None
            }
        }
    }

    /// Returns the tool of an approval request. `None` if the request is not open.
    pub(crate) fn tool(&self, id: ApprovalId) -> Option<String> {
        self.approvals.get(id).map(|approval| approval.tool)
    }

    /// Returns true if an approval request expects a text answer.
    pub(crate) fn wants_text(&self, id: ApprovalId) -> bool {
        self.approvals.get(id).is_some_and(|approval| approval.wants_text)
    }

    /// Approves or denies a request. The first decision of all clients counts.
    pub(crate) async fn decide(
        &self,
        id: ApprovalId,
        decision: ApprovalDecision,
    ) -> Result<(), CliError> {
        let (decision, text) = match decision {
            ApprovalDecision::Approve | ApprovalDecision::ApprovedBy { .. } => {
                (Decision::Approve, None)
            }
            ApprovalDecision::Deny { reason } => {
                (Decision::Deny, Some(reason).filter(|reason| !reason.is_empty()))
            }
        };
        self.answer(id, DecisionRequest { decision, text, grant: None }).await
    }

    /// Answers a question with text. The first answer of all clients counts.
    pub(crate) async fn reply(&self, id: ApprovalId, text: String) -> Result<(), CliError> {
        self.answer(
            id,
            DecisionRequest { decision: Decision::Reply, text: Some(text), grant: None },
        )
        .await
    }

    async fn answer(&self, id: ApprovalId, answer: DecisionRequest) -> Result<(), CliError> {
        match self.client.decide_approval(id, &answer).await {
            // Another decision was first, or the request has expired. An event reports the decision that counts.
            Err(error) if error.kind() != ErrorKind::Conflict => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Cancels the run. Its last event follows.
    pub(crate) async fn cancel(&self) -> Result<(), CliError> {
        Ok(self.client.cancel_run(self.run).await.map(drop)?)
    }

    /// Cancels the run and waits until it has ended, or until the timeout.
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

/// Task that reads the stream of a run.
struct Watcher {
    client: Client,
    run: RunId,
    stream: EventStream,
    assembler: EventAssembler,
    /// Approval requests that were emitted.
    emitted: HashSet<ApprovalId>,
    /// Number of the last known event of the run.
    last_event: u64,
    approvals: OpenApprovals,
    sender: mpsc::Sender<Result<Event, CliError>>,
}

impl Watcher {
    /// Sends events until the run has ended or the receiver was dropped.
    async fn watch(mut self) {
        while !self.assembler.has_ended() {
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

    /// Returns the events of the next item. `None` at the end of the stream.
    async fn advance(&mut self) -> Result<Option<Vec<Event>>, CliError> {
        let Some(item) = self.stream.next().await? else { return Ok(None) };
        let durable = match &item {
            StreamItem::Event { event, .. } => Some((event.seq, event.at.0)),
            _ => None,
        };
        let mut events = self.assembler.apply(item)?;
        for event in &events {
            if let EventKind::ApprovalDecided { id, .. } = &event.kind
                && let Some(tool) = self.assembler.tool(*id).cloned()
            {
                self.approvals.insert(*id, OpenApproval { tool, wants_text: false });
            }
        }
        if let Some((seq, at)) = durable.filter(|_| self.assembler.is_parked()) {
            for kind in self.new_approvals(seq).await? {
                events.push(self.assembler.event(at, kind));
            }
        }
        Ok(Some(events))
    }

    /// Returns the open approval requests of a parked run that were not emitted yet. A run without open requests waits
    /// for another event. Earlier events of the log return nothing, because only the last event reflects the current
    /// state.
    async fn new_approvals(&mut self, seq: u64) -> Result<Vec<EventKind>, CliError> {
        if seq < self.last_event {
            return Ok(Vec::new());
        }
        let run = self.client.run(self.run).await?;
        self.last_event = run.events;
        if seq < run.events || run.phase != RunPhase::Parked {
            return Ok(Vec::new());
        }
        let list = ApprovalQuery { run: Some(self.run), ..ApprovalQuery::default() };
        let open = self.client.approvals(&list).await?.items;
        if open.is_empty() {
            return Ok(vec![EventKind::Suspended { approvals: Vec::new() }]);
        }
        let mut kinds = Vec::new();
        for approval in open.into_iter().rev() {
            if self.emitted.insert(approval.id) {
                let wants_text = approval.kind == ApprovalKind::Question;
                let tool = approval.request.call.name.clone();
                self.approvals.insert(approval.id, OpenApproval { tool, wants_text });
                kinds.push(EventKind::ApprovalNeeded { request: Box::new(approval.request) });
            }
        }
        Ok(kinds)
    }
}
