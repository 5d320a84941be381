//! Task logs: the events of a task as plain text.

use provost_core::id::name::Namespace;
use provost_core::{DurableEvent, DurableEventKind, Message, RunId, TaskId, Timestamp, ToolResult};

use crate::Store;
use crate::query::QueryError;
use crate::query::event_log::{self, LogEntry, LogPage};
use crate::query::page::PAGE_MAX;

/// A line of a task log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLog {
    /// The task.
    pub task: TaskId,
    /// The run.
    pub run: RunId,
    /// Position in the event log.
    pub pos: u64,
    /// Time of the event.
    pub at: Timestamp,
    /// Source of the text.
    pub stream: LogStream,
    /// The text.
    pub text: String,
}

/// Source of a line in a task log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogStream {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
    /// The engine.
    System,
}

impl LogStream {
    /// Returns the stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::System => "system",
        }
    }
}

/// A page of a task log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLogPage {
    /// The lines, in order.
    pub entries: Vec<TaskLog>,
    /// Start of the next page. It can advance even if the page is empty.
    pub next: u64,
    /// True if the next page can be read immediately.
    pub has_more: bool,
}

/// Returns the lines of all runs of a task after a position. Fails if the task does not exist.
pub async fn of_task(
    store: &Store,
    namespace: &Namespace,
    task: TaskId,
    after: u64,
    limit: u64,
) -> Result<TaskLogPage, QueryError> {
    let limit = limit.clamp(1, PAGE_MAX);
    let LogPage { entries, next, has_more } =
        event_log::of_task(store, namespace, task, after, limit).await?;
    let mut lines = Vec::with_capacity(entries.len());
    for entry in entries {
        if let Some((stream, text)) = line(&entry)? {
            let LogEntry { run, pos, at, .. } = entry;
            lines.push(TaskLog { task, run, pos, at, stream, text });
        }
    }
    Ok(TaskLogPage { entries: lines, next, has_more })
}

/// Returns the text of an event; `None` for events without text.
fn line(entry: &LogEntry) -> Result<Option<(LogStream, String)>, QueryError> {
    let message_line = |stream, text: &str| -> Result<Option<(LogStream, String)>, QueryError> {
        let text = serde_json::from_str::<Message>(text)?.text();
        Ok((!text.is_empty()).then_some((stream, text)))
    };
    let kind = DurableEventKind::from_name(&entry.kind);
    match (kind, &entry.message, &entry.result) {
        (Some(DurableEventKind::UserMessage), Some(message), _) => {
            message_line(LogStream::User, message)
        }
        (Some(DurableEventKind::TurnFinished), Some(message), _) => {
            message_line(LogStream::Assistant, message)
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
        _ => Ok(Some((LogStream::System, describe(&entry.kind, entry.body.as_deref())))),
    }
}

/// Describes an event of the engine with its reason.
fn describe(kind: &str, body: Option<&str>) -> String {
    // A newer program may have written a body that this version cannot parse.
    let event = body.and_then(|body| DurableEvent::parse(kind, body).ok());
    let kind = kind.replace('_', " ");
    match event.as_ref().and_then(DurableEvent::reason) {
        Some(reason) => format!("{kind}: {reason}"),
        None => kind,
    }
}
