//! The conversation as a list of entries.
//!
//! Events change the entries. Each entry has a revision, so that a view renders only changed entries again.

use std::sync::Arc;
use std::time::Duration;

use provost_core::{
    ApprovalDecision, ApprovalRequest, ContentPart, EventKind, Message, Role, RunSummary, ToolCall,
    ToolResult,
};

use crate::error::{self, CliError};
use crate::render::event::{approval_details, remark};

/// State of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolCallState {
    /// The model is writing the call.
    Streaming,
    /// The call is complete and not yet started.
    Ready,
    /// The call waits for an approval.
    AwaitingApproval,
    /// The call was denied.
    Denied,
    /// The call is executing.
    Running,
    /// The call succeeded.
    Done,
    /// The call failed.
    Failed,
    /// The run ended before the call.
    Cancelled,
}

/// Tool call and its result.
#[derive(Debug, Clone)]
pub(crate) struct ToolCallEntry {
    /// Id of the call.
    pub(crate) call_id: String,
    /// Name of the tool.
    pub(crate) name: String,
    /// Arguments as the model wrote them.
    pub(crate) arguments: String,
    /// State of the call.
    pub(crate) state: ToolCallState,
    /// Reason of the approval request, or the progress of the call.
    pub(crate) note: Option<String>,
    /// Output of the tool.
    pub(crate) result: String,
    /// Duration of the call.
    pub(crate) duration: Duration,
}

/// Content of an entry.
#[derive(Debug, Clone)]
pub(crate) enum EntryBody {
    /// Message of the user.
    User(String),
    /// Text of the model, in Markdown.
    Answer(String),
    /// Reasoning of the model.
    Reasoning(String),
    /// A tool call.
    Tool(ToolCallEntry),
    /// Note, in Markdown.
    Notice(String),
    /// Error.
    Error(CliError),
}

/// Entry of the transcript.
#[derive(Debug, Clone)]
pub(crate) struct TranscriptEntry {
    /// Unique id of the entry.
    pub(crate) id: u64,
    /// Content of the entry.
    pub(crate) body: EntryBody,
    /// True if the entry is unfolded.
    pub(crate) is_open: bool,
    /// Number of changes.
    pub(crate) revision: u64,
}

impl TranscriptEntry {
    /// Returns true if the entry can be unfolded.
    pub(crate) fn is_foldable(&self) -> bool {
        matches!(self.body, EntryBody::Tool(_) | EntryBody::Reasoning(_))
    }
}

/// Entries of the conversation, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    entries: Vec<TranscriptEntry>,
    /// Index of the first entry of the current run, because call ids are unique only within a run.
    run_start: usize,
    /// True while deltas extend the last entry.
    is_streaming: bool,
    next_id: u64,
}

impl Transcript {
    /// Returns the entries.
    pub(crate) fn entries(&self) -> &[TranscriptEntry] {
        &self.entries
    }

    /// Adds an entry.
    pub(crate) fn push(&mut self, body: EntryBody) {
        self.is_streaming = false;
        self.next_id += 1;
        self.entries.push(TranscriptEntry { id: self.next_id, body, is_open: false, revision: 0 });
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        *self = Self { next_id: self.next_id, ..Self::default() };
    }

    /// Starts a run. Later entries belong to it.
    pub(crate) fn begin_run(&mut self) {
        self.run_start = self.entries.len();
        self.is_streaming = false;
    }

    /// Folds or unfolds an entry.
    pub(crate) fn toggle(&mut self, index: usize) {
        if let Some(entry) = self.entries.get_mut(index).filter(|e| e.is_foldable()) {
            entry.is_open = !entry.is_open;
            entry.revision += 1;
        }
    }

    /// Adds the messages of a stored conversation.
    pub(crate) fn load(&mut self, messages: &[Arc<Message>]) {
        for message in messages {
            // Every user message starts a run or is part of one, so that call ids do not collide.
            if message.role == Role::User {
                self.begin_run();
            }
            for part in &message.parts {
                match (message.role, part) {
                    (Role::User, ContentPart::Text { text }) => {
                        self.push(EntryBody::User(text.clone()))
                    }
                    (Role::Assistant, ContentPart::Text { text }) => {
                        self.push(EntryBody::Answer(text.clone()));
                    }
                    (Role::Summary, ContentPart::Text { text }) => {
                        self.push(EntryBody::Notice(format!(
                            "summary of earlier messages: {text}"
                        )));
                    }
                    (_, ContentPart::Reasoning(reasoning)) if !reasoning.text.is_empty() => {
                        self.push(EntryBody::Reasoning(reasoning.text.clone()));
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

    /// Applies an event of the run.
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
                self.change(call_id, |tool| tool.state = ToolCallState::Running);
            }
            EventKind::ToolProgress { call_id, message } => {
                self.change(call_id, |tool| tool.note = Some(message.clone()));
            }
            EventKind::ToolFinished { result, duration } => self.finish_tool(result, *duration),
            EventKind::ApprovalNeeded { request } => self.ask(request),
            EventKind::Failed { error } => {
                self.cancel_tools();
                self.push(EntryBody::Error(CliError::of_run(error)));
            }
            EventKind::Cancelled => {
                self.cancel_tools();
                self.push(EntryBody::Notice("cancelled".to_owned()));
            }
            EventKind::Finished { summary } => self.finish(summary),
            other => {
                if let Some(remark) = remark(other) {
                    self.push(EntryBody::Notice(remark));
                }
            }
        }
    }

    /// Updates the state of a call after a decision.
    pub(crate) fn mark_decision(&mut self, call_id: &str, decision: &ApprovalDecision) {
        self.change(call_id, |tool| {
            tool.state = match decision {
                ApprovalDecision::Approve | ApprovalDecision::ApprovedBy { .. } => {
                    ToolCallState::Ready
                }
                ApprovalDecision::Deny { .. } => ToolCallState::Denied,
            };
        });
    }

    /// Returns the transcript as Markdown.
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = String::from("# Chat\n");
        for entry in &self.entries {
            let block = match &entry.body {
                EntryBody::User(text) => format!("\n## You\n\n{text}\n"),
                EntryBody::Answer(text) => format!("\n## Provost\n\n{}\n", text.trim_end()),
                EntryBody::Reasoning(_) | EntryBody::Notice(_) => continue,
                EntryBody::Error(problem) => format!("\n> error: {problem}\n"),
                EntryBody::Tool(tool) => format!(
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

    /// Appends a delta to the open entry, or starts an entry if it is of another kind.
    fn stream(&mut self, text: &str, is_answer: bool) {
        let is_streaming = self.is_streaming;
        match self.entries.last_mut() {
            Some(entry) if is_streaming => match (&mut entry.body, is_answer) {
                (EntryBody::Answer(content), true) | (EntryBody::Reasoning(content), false) => {
                    content.push_str(text);
                    entry.revision += 1;
                }
                _ => self.start_stream(text, is_answer),
            },
            _ => self.start_stream(text, is_answer),
        }
    }

    /// Starts an entry that deltas extend.
    fn start_stream(&mut self, text: &str, is_answer: bool) {
        self.push(if is_answer {
            EntryBody::Answer(text.to_owned())
        } else {
            EntryBody::Reasoning(text.to_owned())
        });
        self.is_streaming = true;
    }

    /// Adds an entry for a tool call.
    fn start_tool(&mut self, call_id: &str, name: &str) {
        self.push(EntryBody::Tool(ToolCallEntry {
            call_id: call_id.to_owned(),
            name: name.to_owned(),
            arguments: String::new(),
            state: ToolCallState::Streaming,
            note: None,
            result: String::new(),
            duration: Duration::ZERO,
        }));
    }

    /// Sets the complete arguments of a tool call, and adds its entry if needed.
    fn ready(&mut self, call: &ToolCall) {
        if !self.change(&call.id, |_| {}) {
            self.start_tool(&call.id, &call.name);
        }
        self.change(&call.id, |tool| {
            tool.arguments.clone_from(&call.arguments);
            tool.state = ToolCallState::Ready;
        });
    }

    /// Marks a tool call as waiting for an approval.
    fn ask(&mut self, request: &ApprovalRequest) {
        self.ready(&request.call);
        self.change(&request.call.id, |tool| {
            tool.state = ToolCallState::AwaitingApproval;
            tool.note = approval_details(request);
        });
    }

    /// Sets the result and the duration of a tool call.
    fn finish_tool(&mut self, result: &ToolResult, duration: Duration) {
        self.change(&result.call_id, |tool| {
            tool.result = result.to_text();
            tool.duration = duration;
            tool.note = None;
            tool.state = match (result.is_error, tool.state) {
                (true, ToolCallState::Denied) => ToolCallState::Denied,
                (true, _) => ToolCallState::Failed,
                (false, _) => ToolCallState::Done,
            };
        });
    }

    /// Adds an error or a warning about an incomplete answer. A reached limit has its own event.
    fn finish(&mut self, summary: &RunSummary) {
        if let Some(problem) = CliError::of_stop(summary.stop) {
            self.push(EntryBody::Error(problem));
        } else if let Some(warning) = error::warning(summary) {
            self.push(EntryBody::Notice(format!("warning: {warning}")));
        }
    }

    /// Marks unfinished calls as cancelled.
    fn cancel_tools(&mut self) {
        for entry in &mut self.entries[self.run_start..] {
            if let EntryBody::Tool(tool) = &mut entry.body
                && !matches!(
                    tool.state,
                    ToolCallState::Done | ToolCallState::Failed | ToolCallState::Denied
                )
            {
                tool.state = ToolCallState::Cancelled;
                entry.revision += 1;
            }
        }
    }

    /// Changes the newest call with an id. Returns false if there is none.
    fn change(&mut self, call_id: &str, change: impl FnOnce(&mut ToolCallEntry)) -> bool {
        for entry in self.entries[self.run_start..].iter_mut().rev() {
            if let EntryBody::Tool(tool) = &mut entry.body
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

/// Returns a text in a code fence that is longer than any fence in the text.
fn fenced(text: &str) -> String {
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    format!("{fence}\n{}\n{fence}", text.trim_end())
}
