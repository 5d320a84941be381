//! What was said and done, as entries a person can look at.
//!
//! A pure fold of events. Each entry counts its changes, so that a view draws again only what changed.

use std::sync::Arc;
use std::time::Duration;

use provost_core::{
    ApprovalDecision, ApprovalRequest, ContentPart, EventKind, Message, Role, RunSummary, ToolCall,
    ToolResult,
};

use crate::problem::{self, Problem};
use crate::render::event::{question, remark};

/// How far a tool call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolState {
    /// The model writes it.
    Writing,
    /// It is whole and not yet running.
    Ready,
    /// A person must decide.
    Asking,
    /// A person said no.
    Denied,
    /// It runs.
    Running,
    /// It went well.
    Done,
    /// It went wrong.
    Failed,
    /// The run ended before it did.
    Stopped,
}

/// One tool call and its result.
#[derive(Debug, Clone)]
pub(crate) struct ToolEntry {
    /// The call's id.
    pub(crate) call_id: String,
    /// Which tool.
    pub(crate) name: String,
    /// The arguments as the model wrote them.
    pub(crate) arguments: String,
    /// How far it is.
    pub(crate) state: ToolState,
    /// Why it asks, or how far it says it is.
    pub(crate) remark: Option<String>,
    /// What it gave.
    pub(crate) result: String,
    /// How long it ran.
    pub(crate) duration: Duration,
}

/// What an entry is.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// What the user said.
    User(String),
    /// What the model said, in Markdown.
    Answer(String),
    /// What the model thought.
    Reasoning(String),
    /// A tool call.
    Tool(ToolEntry),
    /// A side remark, in Markdown.
    Notice(String),
    /// Something went wrong.
    Problem(Problem),
}

/// One entry.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Never used twice, so that a view can tell entries apart.
    pub(crate) id: u64,
    /// What it is.
    pub(crate) body: Body,
    /// True if it is folded open.
    pub(crate) is_open: bool,
    /// Grows with each change.
    pub(crate) revision: u64,
}

impl Entry {
    /// True if it has more to show when open.
    pub(crate) fn is_foldable(&self) -> bool {
        matches!(self.body, Body::Tool(_) | Body::Reasoning(_))
    }
}

/// All entries, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    entries: Vec<Entry>,
    /// Where the entries of the running turn begin: call ids are unique only within a run.
    run_start: usize,
    /// True while deltas go on with the last entry.
    is_streaming: bool,
    next_id: u64,
}

impl Transcript {
    /// The entries.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Adds an entry.
    pub(crate) fn push(&mut self, body: Body) {
        self.is_streaming = false;
        self.next_id += 1;
        self.entries.push(Entry { id: self.next_id, body, is_open: false, revision: 0 });
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self { next_id: self.next_id, ..Self::default() };
    }

    /// A run begins; what follows is its own.
    pub(crate) fn begin_run(&mut self) {
        self.run_start = self.entries.len();
        self.is_streaming = false;
    }

    /// Folds an entry open or shut.
    pub(crate) fn toggle(&mut self, index: usize) {
        if let Some(entry) = self.entries.get_mut(index).filter(|e| e.is_foldable()) {
            entry.is_open = !entry.is_open;
            entry.revision += 1;
        }
    }

    /// Takes a stored conversation in.
    pub(crate) fn load(&mut self, messages: &[Arc<Message>]) {
        for message in messages {
            // A question of the user begins a run at the latest.
            if message.role == Role::User {
                self.begin_run();
            }
            for part in &message.parts {
                match (message.role, part) {
                    (Role::User, ContentPart::Text { text }) => self.push(Body::User(text.clone())),
                    (Role::Assistant, ContentPart::Text { text }) => {
                        self.push(Body::Answer(text.clone()));
                    }
                    (Role::Summary, ContentPart::Text { text }) => {
                        self.push(Body::Notice(format!("summary of earlier messages: {text}")));
                    }
                    (_, ContentPart::Reasoning(reasoning)) if !reasoning.text.is_empty() => {
                        self.push(Body::Reasoning(reasoning.text.clone()));
                    }
                    (_, ContentPart::ToolCall(call)) => self.ready(call),
                    (_, ContentPart::ToolResult(result)) => {
                        self.finish_tool(result, Duration::ZERO)
                    }
                    _ => {}
                }
            }
        }
        self.begin_run();
    }

    /// Takes one event in.
    pub(crate) fn apply(&mut self, kind: &EventKind) {
        match kind {
            EventKind::TurnStarted { .. } | EventKind::TurnFinished { .. } => {
                self.is_streaming = false;
            }
            EventKind::TextDelta { text } => self.stream(text, true),
            EventKind::ReasoningDelta { text } => self.stream(text, false),
            EventKind::ToolCallStarted { call_id, name } => self.start_tool(call_id, name),
            EventKind::ToolCallDelta { call_id, arguments } => {
                self.change(call_id, |tool| tool.arguments.push_str(arguments));
            }
            EventKind::ToolCallReady { call } => self.ready(call),
            EventKind::ToolStarted { call_id, .. } => {
                self.change(call_id, |tool| tool.state = ToolState::Running);
            }
            EventKind::ToolProgress { call_id, message } => {
                self.change(call_id, |tool| tool.remark = Some(message.clone()));
            }
            EventKind::ToolFinished { result, duration } => self.finish_tool(result, *duration),
            EventKind::ApprovalNeeded { request } => self.ask(request),
            EventKind::Failed { error } => {
                self.stop_tools();
                self.push(Body::Problem(Problem::of_run(error)));
            }
            EventKind::Cancelled => {
                self.stop_tools();
                self.push(Body::Notice("stopped".to_owned()));
            }
            EventKind::Finished { summary } => self.finish(summary),
            other => {
                if let Some(remark) = remark(other) {
                    self.push(Body::Notice(remark));
                }
            }
        }
    }

    /// Marks what a person decided about a call.
    pub(crate) fn decided(&mut self, call_id: &str, decision: &ApprovalDecision) {
        self.change(call_id, |tool| {
            tool.state = match decision {
                ApprovalDecision::Approve | ApprovalDecision::ApprovedBy { .. } => ToolState::Ready,
                ApprovalDecision::Deny { .. } => ToolState::Denied,
            };
        });
    }

    /// The whole transcript as Markdown.
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = String::from("# Chat\n");
        for entry in &self.entries {
            let block = match &entry.body {
                Body::User(said) => format!("\n## You\n\n{said}\n"),
                Body::Answer(said) => format!("\n## Provost\n\n{}\n", said.trim_end()),
                Body::Reasoning(_) | Body::Notice(_) => continue,
                Body::Problem(problem) => format!("\n> error: {problem}\n"),
                Body::Tool(tool) => format!(
                    "\n- tool `{}` {}\n\n{}\n",
                    tool.name,
                    tool.arguments,
                    fenced(&tool.result)
                ),
            };
            text.push_str(&block);
        }
        text
    }

    fn stream(&mut self, text: &str, is_answer: bool) {
        let is_streaming = self.is_streaming;
        match self.entries.last_mut() {
            Some(entry) if is_streaming => match (&mut entry.body, is_answer) {
                (Body::Answer(said), true) | (Body::Reasoning(said), false) => {
                    said.push_str(text);
                    entry.revision += 1;
                }
                _ => self.start_stream(text, is_answer),
            },
            _ => self.start_stream(text, is_answer),
        }
    }

    fn start_stream(&mut self, text: &str, is_answer: bool) {
        self.push(if is_answer {
            Body::Answer(text.to_owned())
        } else {
            Body::Reasoning(text.to_owned())
        });
        self.is_streaming = true;
    }

    fn start_tool(&mut self, call_id: &str, name: &str) {
        self.push(Body::Tool(ToolEntry {
            call_id: call_id.to_owned(),
            name: name.to_owned(),
            arguments: String::new(),
            state: ToolState::Writing,
            remark: None,
            result: String::new(),
            duration: Duration::ZERO,
        }));
    }

    fn ready(&mut self, call: &ToolCall) {
        if !self.change(&call.id, |_| {}) {
            self.start_tool(&call.id, &call.name);
        }
        self.change(&call.id, |tool| {
            tool.arguments.clone_from(&call.arguments);
            tool.state = ToolState::Ready;
        });
    }

    fn ask(&mut self, request: &ApprovalRequest) {
        self.ready(&request.call);
        self.change(&request.call.id, |tool| {
            tool.state = ToolState::Asking;
            tool.remark = question(request);
        });
    }

    fn finish_tool(&mut self, result: &ToolResult, duration: Duration) {
        self.change(&result.call_id, |tool| {
            tool.result = result.to_text();
            tool.duration = duration;
            tool.remark = None;
            tool.state = match (result.is_error, tool.state) {
                (true, ToolState::Denied) => ToolState::Denied,
                (true, _) => ToolState::Failed,
                (false, _) => ToolState::Done,
            };
        });
    }

    /// The answer is all there is; what it lacks is told. A limit has told its own.
    fn finish(&mut self, summary: &RunSummary) {
        if let Some(problem) = Problem::of_stop(summary.stop) {
            self.push(Body::Problem(problem));
        } else if let Some(warning) = problem::warning(summary) {
            self.push(Body::Notice(format!("warning: {warning}")));
        }
    }

    /// Calls that never came to an end are shown as stopped.
    fn stop_tools(&mut self) {
        for entry in &mut self.entries[self.run_start..] {
            if let Body::Tool(tool) = &mut entry.body
                && !matches!(tool.state, ToolState::Done | ToolState::Failed | ToolState::Denied)
            {
                tool.state = ToolState::Stopped;
                entry.revision += 1;
            }
        }
    }

    /// Changes the newest call with an id; false if there is none.
    fn change(&mut self, call_id: &str, change: impl FnOnce(&mut ToolEntry)) -> bool {
        for entry in self.entries[self.run_start..].iter_mut().rev() {
            if let Body::Tool(tool) = &mut entry.body
                && tool.call_id == call_id
            {
                change(tool);
                entry.revision += 1;
                return true;
            }
        }
        false
    }
}

/// Text in a fence that is longer than any fence inside it.
fn fenced(text: &str) -> String {
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    format!("{fence}\n{}\n{fence}", text.trim_end())
}
