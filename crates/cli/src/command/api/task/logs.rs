//! `provost task logs` and `provost task events`: print or follow the messages and events of a task.

use provost_api::{LogEntry, StreamItem, WatchOptions};
use provost_core::{DurableEventKind, TaskId};

use crate::error::CliError;
use crate::remote::Connection;
use crate::render::output::printable;
use crate::render::printer::{Format, Printer, line};
use crate::render::speaker;
use crate::signal::Signals;

/// Arguments of `provost task logs`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  provost task logs task_01…\n  provost task logs task_01… --follow\n  \
                        provost task logs task_01… -o jsonl | jq -r .text"
)]
pub(crate) struct Args {
    /// Id of the task
    task: TaskId,
    /// Only entries after this cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Follow new entries until the task has ended
    #[arg(long, short)]
    follow: bool,
}

/// Arguments of `provost task events`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  provost task events task_01…\n  provost task events task_01… --follow -o jsonl"
)]
pub(crate) struct EventArgs {
    /// Id of the task
    task: TaskId,
    /// Only entries after this cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Follow new entries until the task has ended
    #[arg(long, short)]
    follow: bool,
}

impl Args {
    /// Prints the messages.
    pub(crate) async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        let mut cursor = self.after.clone();
        if !self.follow {
            self.print_new(cx, &mut cursor).await?;
            return Ok(0);
        }
        let found = cx.client.task(self.task).await?;
        cx.process_session(&found.session).await?;
        let mut signals = Signals::listen().map_err(|error| CliError::io("signals", &error))?;
        let watch = WatchOptions { deltas: false, ..WatchOptions::default() };
        let mut stream = cx.client.watch_task(self.task, watch);
        loop {
            let item = tokio::select! {
                item = stream.next() => item?,
                _ = signals.next() => return Ok(0),
            };
            let has_run_ended = match &item {
                None | Some(StreamItem::End) => true,
                Some(StreamItem::Event { event, .. }) => is_last(&event.kind),
                Some(_) => continue,
            };
            self.print_new(cx, &mut cursor).await?;
            if has_run_ended && cx.client.task(self.task).await?.ended.is_some() {
                return Ok(0);
            }
        }
    }

    /// Prints the entries after the cursor and moves the cursor behind them.
    async fn print_new(
        &self,
        cx: &Connection,
        cursor: &mut Option<String>,
    ) -> Result<(), CliError> {
        let printer = cx.printer;
        loop {
            let page = cx.client.task_logs(self.task, cursor.as_deref(), Some(500)).await?;
            for entry in &page.items {
                printer.write(&log_text(&printer, entry)?)?;
            }
            let is_last = page.items.is_empty() || page.next.is_none() || page.next == *cursor;
            *cursor = page.next.or(cursor.take());
            if is_last {
                return Ok(());
            }
        }
    }
}

impl EventArgs {
    /// Prints the events.
    pub(crate) async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        let printer = cx.printer;
        if !self.follow {
            let mut cursor = self.after.clone();
            loop {
                let batch = cx.client.task_events(self.task, cursor.as_deref(), Some(500)).await?;
                for event in &batch.run_events {
                    printer.write(&event_text(&printer, event)?)?;
                }
                if !batch.more {
                    return Ok(0);
                }
                cursor = Some(batch.next);
            }
        }
        let found = cx.client.task(self.task).await?;
        cx.process_session(&found.session).await?;
        let mut signals = Signals::listen().map_err(|error| CliError::io("signals", &error))?;
        let watch =
            WatchOptions { after: self.after.clone(), deltas: false, ..WatchOptions::default() };
        let mut stream = cx.client.watch_task(self.task, watch);
        loop {
            let item = tokio::select! {
                item = stream.next() => item?,
                _ = signals.next() => return Ok(0),
            };
            match item {
                None | Some(StreamItem::End) => return Ok(0),
                Some(StreamItem::Event { event, .. }) => {
                    printer.write(&event_text(&printer, &event)?)?;
                    if is_last(&event.kind) && cx.client.task(self.task).await?.ended.is_some() {
                        return Ok(0);
                    }
                }
                Some(_) => {}
            }
        }
    }
}

/// Returns true if an event of this kind is the last event of its run.
fn is_last(kind: &str) -> bool {
    DurableEventKind::from_name(kind).is_some_and(DurableEventKind::is_terminal)
}

/// Formats a log entry in the selected format.
fn log_text(printer: &Printer, entry: &LogEntry) -> Result<String, CliError> {
    match printer.format {
        Format::Table => {
            let text = printable(entry.text.trim_end()).replace('\n', "\n           ");
            Ok(format!("{:<9}  {text}\n", speaker(entry)))
        }
        _ => line(entry),
    }
}

/// Formats an event in the selected format.
pub(crate) fn event_text(
    printer: &Printer,
    event: &provost_api::RunEvent,
) -> Result<String, CliError> {
    match printer.format {
        Format::Table => {
            let time = event.at.to_string();
            let summary = crate::render::event::summary(event);
            Ok(printable(&format!("{:>4}  {time}  {summary}\n", event.seq)).into_owned())
        }
        _ => line(event),
    }
}
