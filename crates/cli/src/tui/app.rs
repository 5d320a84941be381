//! State of the chat and its changes.
//!
//! Invariant: [`App::update`] is pure. It changes the state and returns the effects, which the event loop performs.

mod command;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use provost_core::{
    ApprovalDecision, ApprovalId, ApprovalRequest, ErrorKind, EventKind, Message, Usage,
};
use ratatui::crossterm::event::KeyEvent;

use super::input::Input;
use super::slash;
use super::transcript::{EntryBody, Transcript};
use crate::error::CliError;

/// Time for which an approval request must be visible before a key can decide it. An earlier key press was meant for
/// something else.
const DECISION_DELAY: Duration = Duration::from_millis(500);

/// Input of the state machine.
#[derive(Debug)]
pub(crate) enum KeyAction {
    /// A key was pressed.
    Key(KeyEvent),
    /// Text was pasted.
    Paste(String),
    /// The mouse wheel moved by this number of rows. Up is negative.
    Wheel(isize),
    /// The next approval request expects a text answer.
    AnswerIsText(ApprovalId),
    /// The run emitted an event.
    Run(EventKind),
    /// The stream of the run has ended.
    RunEnded,
    /// The current time, counted from the start of the chat.
    Tick(Duration),
    /// A frame was drawn with these measures.
    Drawn(ViewMetrics),
    /// A note for the user.
    Notice(String),
    /// An operation failed.
    Error(CliError),
    /// The chat switched to this model.
    Model(String),
    /// The stored messages were loaded.
    History(Vec<Arc<Message>>),
    /// The chat follows a run that it did not start: an interrupted run, or a run of another client.
    Follow,
    /// A message could not start a run.
    NotStarted(String, CliError),
    /// No run answers the messages that were added to the previous run.
    InputNotDelivered(String),
    /// A new conversation started.
    NewConversation,
}

/// Effect that the event loop performs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Starts a run with this message.
    Start(String),
    /// Follows the run that answers the messages that were added to the previous run.
    ContinueRun(String),
    /// Adds a message to the active run.
    Steer(String),
    /// Decides an approval request.
    Decide(ApprovalId, ApprovalDecision),
    /// Answers a question with text.
    Reply(ApprovalId, String),
    /// Cancels the run and deletes the messages that it has not read.
    Cancel,
    /// Stops following the run without waiting for its end.
    Detach,
    /// Switches to another model.
    Model(String),
    /// Writes the conversation to a file.
    Save(Option<String>, String),
    /// Starts a new conversation.
    StartConversation,
    /// Redraws the screen.
    Redraw,
    /// Ends the chat.
    Quit,
}

/// Measures of the last frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ViewMetrics {
    /// Rows of the whole transcript.
    pub(crate) total: usize,
    /// Rows on the screen.
    pub(crate) height: usize,
    /// First row of the selected entry.
    pub(crate) selected: Option<usize>,
    /// True if an approval request was visible.
    pub(crate) shows_approval: bool,
}

/// Visible part of the transcript.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Scroll {
    /// The end of the transcript, also when it grows.
    #[default]
    Follow,
    /// The part from this row.
    At(usize),
}

/// Active run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running {
    /// Start time.
    pub(crate) since: Duration,
    /// True after the user cancelled the run.
    pub(crate) is_cancelling: bool,
}

/// Facts that the chat shows in addition to the conversation.
#[derive(Debug, Clone, Default)]
pub(crate) struct StatusInfo {
    /// Name of the model.
    pub(crate) model: String,
    /// Names and descriptions of the tools.
    pub(crate) tools: Vec<(String, String)>,
    /// True if every tool call is approved automatically.
    pub(crate) approves_all: bool,
}

/// State of the chat.
#[derive(Debug, Default)]
pub(crate) struct App {
    /// Messages and tool calls of the conversation.
    pub(crate) transcript: Transcript,
    /// Text that the user is typing.
    pub(crate) input: Input,
    /// Active run. `None` if the chat is idle.
    pub(crate) running: Option<Running>,
    /// Open approval requests, oldest first.
    pub(crate) approvals: VecDeque<ApprovalRequest>,
    /// Messages that the active run has not read yet.
    pub(crate) queued: VecDeque<String>,
    /// Index of the selected entry.
    pub(crate) selected: Option<usize>,
    /// Visible part of the transcript.
    pub(crate) scroll: Scroll,
    /// Token usage of the conversation.
    pub(crate) usage: Usage,
    /// Current time, counted from the start of the chat.
    pub(crate) now: Duration,
    /// Model and tools.
    pub(crate) status: StatusInfo,
    /// True if the next Ctrl-C ends the chat.
    pub(crate) is_quit_armed: bool,
    pub(super) metrics: ViewMetrics,
    /// Approval request that is visible above an empty input box, and the time since when.
    visible_approval: Option<(ApprovalId, Duration)>,
    /// Tools whose calls are always approved.
    always_approved: HashSet<String>,
    /// Approval requests that expect a text answer.
    text_questions: HashSet<ApprovalId>,
    /// Message that started the run. The first event of the run repeats it.
    first_message: Option<String>,
}

impl App {
    /// Creates an empty chat with a welcome text.
    pub(crate) fn new(status: StatusInfo, welcome: String) -> Self {
        let mut app = Self { status, ..Self::default() };
        app.transcript.push(EntryBody::Notice(welcome));
        app
    }

    /// Applies an action and returns the effects to perform.
    pub(crate) fn update(&mut self, action: KeyAction) -> Vec<Effect> {
        match action {
            KeyAction::Key(key) => return self.key(key),
            KeyAction::Paste(text) => self.input.insert(&text),
            KeyAction::Wheel(rows) => self.scroll_by(rows),
            KeyAction::AnswerIsText(id) => drop(self.text_questions.insert(id)),
            KeyAction::Run(kind) => return self.run_event(&kind),
            KeyAction::RunEnded => {
                if self.running.is_some() {
                    let problem = CliError::new(ErrorKind::Bug, "the run ended without a result");
                    self.transcript.push(EntryBody::Error(problem));
                }
                return self.finish_run();
            }
            KeyAction::Tick(now) => self.now = now,
            KeyAction::Drawn(metrics) => self.apply_metrics(metrics),
            KeyAction::Notice(text) => self.transcript.push(EntryBody::Notice(text)),
            KeyAction::Error(problem) => self.transcript.push(EntryBody::Error(problem)),
            KeyAction::Model(name) => {
                let text = format!("switched to the model `{name}`");
                self.transcript.push(EntryBody::Notice(text));
                self.status.model = name;
            }
            KeyAction::History(messages) => self.transcript.load(&messages),
            KeyAction::Follow => {
                self.transcript.begin_run();
                self.running = Some(Running { since: self.now, is_cancelling: false });
            }
            KeyAction::NotStarted(text, problem) => {
                self.transcript.push(EntryBody::Error(problem));
                self.restore_input(&text);
            }
            KeyAction::InputNotDelivered(text) => {
                self.queued.clear();
                self.restore_input(&text);
            }
            KeyAction::NewConversation => {
                self.transcript.clear();
                self.usage = Usage::default();
                let text = "started a new conversation; the previous one stays in the database";
                self.transcript.push(EntryBody::Notice(text.to_owned()));
            }
        }
        Vec::new()
    }

    /// Ends the run and puts the message back into the input box.
    fn restore_input(&mut self, text: &str) {
        self.running = None;
        self.first_message = None;
        self.input.insert(text);
    }

    /// Applies an event of the run to the transcript and the status.
    fn run_event(&mut self, kind: &EventKind) -> Vec<Effect> {
        match kind {
            EventKind::UserMessage { message } => self.user_message(&message.text()),
            EventKind::TurnFinished { usage, .. } => self.usage += *usage,
            _ => {}
        }
        self.transcript.apply(kind);
        match kind {
            EventKind::ApprovalNeeded { request } => {
                let is_allowed =
                    self.status.approves_all || self.always_approved.contains(&request.call.name);
                if is_allowed && !self.text_questions.contains(&request.id) {
                    return self.decide(ApprovalRequest::clone(request), ApprovalDecision::Approve);
                }
                self.approvals.push_back(ApprovalRequest::clone(request));
            }
            EventKind::ApprovalDecided { id, .. } => {
                self.approvals.retain(|request| request.id != *id);
            }
            _ => {}
        }
        if kind.is_terminal() {
            return self.finish_run();
        }
        Vec::new()
    }

    /// Shows a message that the run received, unless it is already shown, and removes it from the queue.
    fn user_message(&mut self, text: &str) {
        if self.first_message.as_deref() == Some(text) {
            self.first_message = None;
            return;
        }
        if let Some(index) = self.queued.iter().position(|queued| queued == text) {
            self.queued.remove(index);
        }
        self.transcript.push(EntryBody::User(text.to_owned()));
    }

    /// Ends the run. The next run answers the unread messages, unless the user cancelled the run.
    fn finish_run(&mut self) -> Vec<Effect> {
        let was_cancelled = self.running.take().is_some_and(|run| run.is_cancelling);
        self.approvals.clear();
        self.first_message = None;
        if self.queued.is_empty() {
            return Vec::new();
        }
        let text = Vec::from_iter(self.queued.iter().map(String::as_str)).join("\n\n");
        if was_cancelled {
            self.queued.clear();
            self.input.insert(&text);
            return Vec::new();
        }
        self.update(KeyAction::Follow);
        vec![Effect::ContinueRun(text)]
    }

    /// Submits the text of the input: as a slash command, a new run, or a message to the active run.
    pub(super) fn submit(&mut self) -> Vec<Effect> {
        if self.input.text().trim().is_empty() {
            return Vec::new();
        }
        let text = self.input.submit();
        self.scroll = Scroll::Follow;
        self.selected = None;
        if let Some(command) = slash::parse(&text) {
            return self.slash(command);
        }
        let text = text.trim().to_owned();
        if self.wants_text()
            && let Some(request) = self.approvals.pop_front()
        {
            self.transcript.push(EntryBody::User(text.clone()));
            return vec![Effect::Reply(request.id, text)];
        }
        if self.running.is_some() {
            self.queued.push_back(text.clone());
            return vec![Effect::Steer(text)];
        }
        self.start(text)
    }

    /// Starts a run with a message.
    fn start(&mut self, text: String) -> Vec<Effect> {
        self.transcript.push(EntryBody::User(text.clone()));
        self.transcript.begin_run();
        self.first_message = Some(text.clone());
        self.running = Some(Running { since: self.now, is_cancelling: false });
        vec![Effect::Start(text)]
    }

    /// Returns true if the oldest approval request expects a text answer.
    pub(super) fn wants_text(&self) -> bool {
        self.approvals.front().is_some_and(|request| self.text_questions.contains(&request.id))
    }

    /// Returns true if a key can decide the oldest request: the user has seen it and was not typing.
    pub(super) fn accepts_decision(&self) -> bool {
        let front = self.approvals.front();
        let was_visible = |(id, since): (ApprovalId, Duration)| {
            front.is_some_and(|request| request.id == id)
                && self.now.saturating_sub(since) >= DECISION_DELAY
        };
        self.input.is_empty()
            && !self.wants_text()
            && self.visible_approval.is_some_and(was_visible)
    }

    /// Records which request is visible above an empty input box.
    fn track_approval(&mut self, is_drawn: bool) {
        let front = self.approvals.front().filter(|_| is_drawn && self.input.is_empty());
        self.visible_approval = match (front, self.visible_approval) {
            (Some(request), Some(visible)) if visible.0 == request.id => Some(visible),
            (Some(request), _) => Some((request.id, self.now)),
            (None, _) => None,
        };
    }

    /// Decides the oldest request and returns the effects. With `is_always`, also decides the open requests of the same
    /// tool and approves its later ones automatically. No effects if there is no request.
    pub(super) fn decide_oldest(
        &mut self,
        decision: ApprovalDecision,
        is_always: bool,
    ) -> Vec<Effect> {
        let Some(request) = self.approvals.pop_front() else {
            return Vec::new();
        };
        let name = request.call.name.clone();
        let mut effects = self.decide(request, decision.clone());
        if is_always {
            let same = |other: &ApprovalRequest| other.call.name == name;
            let (same_tool, others): (VecDeque<_>, _) = self.approvals.drain(..).partition(same);
            self.approvals = others;
            for request in same_tool {
                effects.extend(self.decide(request, decision.clone()));
            }
            self.always_approved.insert(name);
        }
        effects
    }

    fn decide(&mut self, request: ApprovalRequest, decision: ApprovalDecision) -> Vec<Effect> {
        self.transcript.mark_decision(&request.call.id, &decision);
        vec![Effect::Decide(request.id, decision)]
    }

    /// Scrolls by a number of rows. Up is negative.
    pub(super) fn scroll_by(&mut self, rows: isize) {
        let last = self.metrics.total.saturating_sub(self.metrics.height);
        let top = match self.scroll {
            Scroll::Follow => last,
            Scroll::At(top) => top.min(last),
        };
        let moved = top.saturating_add_signed(rows);
        self.scroll = if moved >= last { Scroll::Follow } else { Scroll::At(moved) };
    }

    /// Records the measures of the frame, and scrolls to a newly selected entry that is not visible.
    fn apply_metrics(&mut self, metrics: ViewMetrics) {
        self.track_approval(metrics.shows_approval);
        let is_new = self.metrics.selected != metrics.selected;
        self.metrics = metrics;
        let Some(row) = metrics.selected.filter(|_| is_new) else {
            return;
        };
        let last = metrics.total.saturating_sub(metrics.height);
        let top = match self.scroll {
            Scroll::Follow => last,
            Scroll::At(top) => top.min(last),
        };
        if row < top || row >= top + metrics.height {
            self.scroll = Scroll::At(row.min(last));
        }
    }
}

#[cfg(test)]
mod tests;
