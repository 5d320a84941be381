//! The state of the chat and how it changes.
//!
//! Invariant: [`App::update`] is pure. It changes the state and says what is to be done; somebody else does it.

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
use super::transcript::{Body, Transcript};
use crate::problem::Problem;

/// How long a question must be on the screen before a key can answer it: what was typed before was not meant for it.
const ANSWER_AFTER: Duration = Duration::from_millis(500);

/// What can happen to the chat.
#[derive(Debug)]
pub(crate) enum Action {
    /// A key was pressed.
    Key(KeyEvent),
    /// Text was pasted.
    Paste(String),
    /// The wheel turned, up is negative.
    Wheel(isize),
    /// The question that comes next wants an answer in words.
    WantsWords(ApprovalId),
    /// The run says something.
    Run(EventKind),
    /// The run's stream is over.
    RunGone,
    /// Time passed; counted from the start of the chat.
    Tick(Duration),
    /// The picture was drawn and has these measures.
    Drawn(Metrics),
    /// Something to tell.
    Notice(String),
    /// Something went wrong.
    Problem(Problem),
    /// Another model answers from now on.
    Model(String),
    /// A stored conversation.
    History(Vec<Arc<Message>>),
    /// A turn goes on that was not begun here and now: one that was cut off, or one of another terminal.
    Follow,
    /// The message that was to begin a turn did not reach it.
    NotStarted(String, Problem),
    /// Nothing follows of what was said meanwhile.
    Unheard(String),
    /// A new conversation begins.
    Anew,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Begin a turn with this message.
    Start(String),
    /// Go on with the turn that answers what was said meanwhile.
    Next(String),
    /// Tell the running one something more.
    Steer(String),
    /// Answer a question.
    Decide(ApprovalId, ApprovalDecision),
    /// Answer a question in words.
    Reply(ApprovalId, String),
    /// Stop the turn, gently, and take back what it has not read.
    Cancel,
    /// Do not wait until it has stopped.
    Abandon,
    /// Use another model.
    Model(String),
    /// Write the conversation to a file.
    Save(Option<String>, String),
    /// Begin a new conversation.
    BeginAnew,
    /// Draw everything anew.
    Redraw,
    /// Leave.
    Quit,
}

/// Measures of the last picture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Metrics {
    /// Rows of the whole transcript.
    pub(crate) total: usize,
    /// Rows on the screen.
    pub(crate) height: usize,
    /// First row of the marked entry.
    pub(crate) selected: Option<usize>,
    /// True if a question was on the screen.
    pub(crate) is_asking: bool,
}

/// Which part of the transcript is on the screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Scroll {
    /// The end, whatever comes.
    #[default]
    Follow,
    /// From this row on.
    At(usize),
}

/// A turn that runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running {
    /// When it began.
    pub(crate) since: Duration,
    /// True once it was told to stop.
    pub(crate) is_stopping: bool,
}

/// What the chat shows besides the conversation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// The model in use.
    pub(crate) model: String,
    /// The tools with what they do.
    pub(crate) tools: Vec<(String, String)>,
    /// True if the person allowed every call beforehand.
    pub(crate) is_yes: bool,
}

/// The state.
#[derive(Debug, Default)]
pub(crate) struct App {
    /// What was said and done.
    pub(crate) transcript: Transcript,
    /// What is being typed.
    pub(crate) input: Input,
    /// The running turn.
    pub(crate) running: Option<Running>,
    /// Questions that wait for the user, oldest first.
    pub(crate) approvals: VecDeque<ApprovalRequest>,
    /// Messages the running turn has not seen yet.
    pub(crate) queued: VecDeque<String>,
    /// The marked entry.
    pub(crate) selected: Option<usize>,
    /// Which part is on the screen.
    pub(crate) scroll: Scroll,
    /// Tokens so far.
    pub(crate) usage: Usage,
    /// Now, counted from the start of the chat.
    pub(crate) now: Duration,
    /// Model and tools.
    pub(crate) facts: Facts,
    /// True if the next Ctrl-C leaves.
    pub(crate) is_leaving: bool,
    pub(super) metrics: Metrics,
    /// The question that can be answered, and since when: it is drawn and nothing is being typed.
    asked: Option<(ApprovalId, Duration)>,
    always: HashSet<String>,
    /// Questions that want an answer in words.
    in_words: HashSet<ApprovalId>,
    /// The message that opened the run and comes back as its first event.
    opening: Option<String>,
}

impl App {
    /// A chat with nothing in it.
    pub(crate) fn new(facts: Facts, welcome: String) -> Self {
        let mut app = Self { facts, ..Self::default() };
        app.transcript.push(Body::Notice(welcome));
        app
    }

    /// Takes one thing in and says what is to be done.
    pub(crate) fn update(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Key(key) => return self.key(key),
            Action::Paste(text) => self.input.insert(&text),
            Action::Wheel(rows) => self.scroll_by(rows),
            Action::WantsWords(id) => drop(self.in_words.insert(id)),
            Action::Run(kind) => return self.run_event(&kind),
            Action::RunGone => {
                if self.running.is_some() {
                    let what = "the run ended without a result";
                    let problem = Problem::new(ErrorKind::Bug, what);
                    self.transcript.push(Body::Problem(problem));
                }
                return self.run_over();
            }
            Action::Tick(now) => self.now = now,
            Action::Drawn(metrics) => self.drawn(metrics),
            Action::Notice(text) => self.transcript.push(Body::Notice(text)),
            Action::Problem(problem) => self.transcript.push(Body::Problem(problem)),
            Action::Model(name) => {
                let text = format!("from now on `{name}` answers");
                self.transcript.push(Body::Notice(text));
                self.facts.model = name;
            }
            Action::History(messages) => self.transcript.load(&messages),
            Action::Follow => {
                self.transcript.begin_run();
                self.running = Some(Running { since: self.now, is_stopping: false });
            }
            Action::NotStarted(text, problem) => {
                self.transcript.push(Body::Problem(problem));
                self.give_back(&text);
            }
            Action::Unheard(text) => {
                self.queued.clear();
                self.give_back(&text);
            }
            Action::Anew => {
                self.transcript.clear();
                self.usage = Usage::default();
                let text = "a new conversation begins; the one before it stays in the database";
                self.transcript.push(Body::Notice(text.to_owned()));
            }
        }
        Vec::new()
    }

    /// Nothing runs, and what was said is in the box again.
    fn give_back(&mut self, text: &str) {
        self.running = None;
        self.opening = None;
        self.input.insert(text);
    }

    fn run_event(&mut self, kind: &EventKind) -> Vec<Effect> {
        match kind {
            EventKind::UserMessage { message } => self.user_message(&message.text()),
            EventKind::TurnFinished { usage, .. } => self.usage += *usage,
            _ => {}
        }
        self.transcript.apply(kind);
        match kind {
            EventKind::ApprovalNeeded { request } => {
                let is_allowed = self.facts.is_yes || self.always.contains(&request.call.name);
                if is_allowed && !self.in_words.contains(&request.id) {
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
            return self.run_over();
        }
        Vec::new()
    }

    fn user_message(&mut self, text: &str) {
        if self.opening.as_deref() == Some(text) {
            self.opening = None;
            return;
        }
        if let Some(place) = self.queued.iter().position(|queued| queued == text) {
            self.queued.remove(place);
        }
        self.transcript.push(Body::User(text.to_owned()));
    }

    /// The run is over; what it did not hear is answered by the next one, unless the user stopped it.
    fn run_over(&mut self) -> Vec<Effect> {
        let was_stopping = self.running.take().is_some_and(|run| run.is_stopping);
        self.approvals.clear();
        self.opening = None;
        if self.queued.is_empty() {
            return Vec::new();
        }
        let text = Vec::from_iter(self.queued.iter().map(String::as_str)).join("\n\n");
        if was_stopping {
            self.queued.clear();
            self.input.insert(&text);
            return Vec::new();
        }
        self.update(Action::Follow);
        vec![Effect::Next(text)]
    }

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
        if self.wants_words()
            && let Some(request) = self.approvals.pop_front()
        {
            self.transcript.push(Body::User(text.clone()));
            return vec![Effect::Reply(request.id, text)];
        }
        if self.running.is_some() {
            self.queued.push_back(text.clone());
            return vec![Effect::Steer(text)];
        }
        self.start(text)
    }

    fn start(&mut self, text: String) -> Vec<Effect> {
        self.transcript.push(Body::User(text.clone()));
        self.transcript.begin_run();
        self.opening = Some(text.clone());
        self.running = Some(Running { since: self.now, is_stopping: false });
        vec![Effect::Start(text)]
    }

    /// True if the oldest question wants an answer in words.
    pub(super) fn wants_words(&self) -> bool {
        self.approvals.front().is_some_and(|request| self.in_words.contains(&request.id))
    }

    /// True if a key may answer: whoever pressed it saw the question first and was not typing something else.
    pub(super) fn is_answerable(&self) -> bool {
        let front = self.approvals.front();
        let is_due = |(id, since): (ApprovalId, Duration)| {
            front.is_some_and(|request| request.id == id)
                && self.now.saturating_sub(since) >= ANSWER_AFTER
        };
        self.input.is_empty() && !self.wants_words() && self.asked.is_some_and(is_due)
    }

    /// Notes which question is on the screen above an empty box.
    fn note_question(&mut self, is_drawn: bool) {
        let front = self.approvals.front().filter(|_| is_drawn && self.input.is_empty());
        self.asked = match (front, self.asked) {
            (Some(request), Some(asked)) if asked.0 == request.id => Some(asked),
            (Some(request), _) => Some((request.id, self.now)),
            (None, _) => None,
        };
    }

    /// Answers the oldest question.
    pub(super) fn answer(&mut self, decision: ApprovalDecision, is_always: bool) -> Vec<Effect> {
        let Some(request) = self.approvals.pop_front() else {
            return Vec::new();
        };
        let name = request.call.name.clone();
        let mut effects = self.decide(request, decision.clone());
        if is_always {
            let same = |other: &ApprovalRequest| other.call.name == name;
            let (also, others) = self.approvals.drain(..).partition(same);
            self.approvals = others;
            let also: VecDeque<ApprovalRequest> = also;
            for request in also {
                effects.extend(self.decide(request, decision.clone()));
            }
            self.always.insert(name);
        }
        effects
    }

    fn decide(&mut self, request: ApprovalRequest, decision: ApprovalDecision) -> Vec<Effect> {
        self.transcript.decided(&request.call.id, &decision);
        vec![Effect::Decide(request.id, decision)]
    }

    /// Moves the picture; up is negative.
    pub(super) fn scroll_by(&mut self, rows: isize) {
        let last = self.metrics.total.saturating_sub(self.metrics.height);
        let top = match self.scroll {
            Scroll::Follow => last,
            Scroll::At(top) => top.min(last),
        };
        let moved = top.saturating_add_signed(rows);
        self.scroll = if moved >= last { Scroll::Follow } else { Scroll::At(moved) };
    }

    /// Notes what is on the screen, and brings the marked entry onto it if it is not there.
    fn drawn(&mut self, metrics: Metrics) {
        self.note_question(metrics.is_asking);
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
