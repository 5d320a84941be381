//! A task as a plain log: who said what, in the order of the log.

use provost_core::id::name::Namespace;
use provost_core::{DurableEvent, DurableEventKind, Message, RunId, TaskId, Timestamp, ToolResult};

use crate::Store;
use crate::query::QueryError;
use crate::query::event_log::{self, LogEntry, LogPage};
use crate::query::page::PAGE_MAX;

/// One line of a task's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLog {
    /// The task.
    pub task: TaskId,
    /// The run.
    pub run: RunId,
    /// The position in the whole log.
    pub pos: u64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub stream: LogStream,
    /// What.
    pub text: String,
}

/// Who says something in a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogStream {
    /// Whoever asked.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
    /// The engine.
    System,
}

impl LogStream {
    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::System => "system",
        }
    }
}

/// A part of a task's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLogPage {
    /// Lines, in order.
    pub entries: Vec<TaskLog>,
    /// Where to go on. It may have moved on without any line.
    pub next: u64,
    /// True if more can be read at once.
    pub more: bool,
}

/// What was said in all runs of a task after a position.
pub async fn of_task(
    store: &Store,
    namespace: &Namespace,
    task: TaskId,
    after: u64,
    limit: u64,
) -> Result<TaskLogPage, QueryError> {
    let limit = limit.clamp(1, PAGE_MAX);
    let LogPage { entries, next, more } =
        event_log::of_task(store, namespace, task, after, limit).await?;
    let mut lines = Vec::with_capacity(entries.len());
    for entry in entries {
        if let Some((stream, text)) = line(&entry)? {
            let LogEntry { run, pos, at, .. } = entry;
            lines.push(TaskLog { task, run, pos, at, stream, text });
        }
    }
    Ok(TaskLogPage { entries: lines, next, more })
}

/// What an event says in words; nothing if it is only for programs.
fn line(entry: &LogEntry) -> Result<Option<(LogStream, String)>, QueryError> {
    let said = |stream, text: &str| -> Result<Option<(LogStream, String)>, QueryError> {
        let text = serde_json::from_str::<Message>(text)?.text();
        Ok((!text.is_empty()).then_some((stream, text)))
    };
    let kind = DurableEventKind::from_name(&entry.kind);
    match (kind, &entry.message, &entry.result) {
        (Some(DurableEventKind::UserMessage), Some(message), _) => said(LogStream::User, message),
        (Some(DurableEventKind::TurnFinished), Some(message), _) => {
            said(LogStream::Assistant, message)
        }
        (Some(DurableEventKind::ToolFinished), _, Some(result)) => {
            let result: ToolResult = serde_json::from_str(result)?;
            Ok(Some((LogStream::Tool, format!("{}: {}", result.name, result.to_text()))))
        }
        (
            Some(
                DurableEventKind::UserMessage
                | DurableEventKind::TurnFinished
                | DurableEventKind::ToolFinished,
            ),
            ..,
        ) => Ok(None),
        _ => Ok(Some((LogStream::System, in_words(&entry.kind, entry.body.as_deref())))),
    }
}

/// An event of the engine with its reason.
fn in_words(kind: &str, body: Option<&str>) -> String {
    // A body of a newer version may hold words that are unknown here.
    let event = body.and_then(|body| DurableEvent::parse(kind, body).ok());
    let kind = kind.replace('_', " ");
    match event.as_ref().and_then(DurableEvent::reason) {
        Some(reason) => format!("{kind}: {reason}"),
        None => kind,
    }
}
