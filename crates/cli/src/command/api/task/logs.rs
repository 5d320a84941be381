//! `provost task logs` and `provost task events`: what was said and what happened, now and as it goes on.

use provost_api::{LogEntry, StreamItem, Watch};
use provost_core::{DurableEventKind, TaskId};

use crate::interrupt::Interrupt;
use crate::problem::Problem;
use crate::remote::Connection;
use crate::render::output::printable;
use crate::render::show::{Format, Show, line};
use crate::render::speaker;

/// What `logs` takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  provost task logs task_01…\n  provost task logs task_01… --follow\n  \
                        provost task logs task_01… -o jsonl | jq -r .text"
)]
pub(crate) struct Args {
    /// The task
    task: TaskId,
    /// Only what comes after this cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Go on until the task has ended
    #[arg(long, short)]
    follow: bool,
}

/// What `events` takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  provost task events task_01…\n  provost task events task_01… --follow -o jsonl"
)]
pub(crate) struct EventArgs {
    /// The task
    task: TaskId,
    /// Only what comes after this cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Go on until the task has ended
    #[arg(long, short)]
    follow: bool,
}

impl Args {
    /// Shows what was said.
    pub(crate) async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let mut at = self.after.clone();
        if !self.follow {
            self.read_on(cx, &mut at).await?;
            return Ok(0);
        }
        let found = cx.client.task(self.task).await?;
        cx.work_on(&found.session).await?;
        let mut interrupt = Interrupt::listen().map_err(|error| Problem::io("signals", &error))?;
        let watch = Watch { deltas: false, ..Watch::default() };
        let mut stream = cx.client.watch_task(self.task, watch);
        loop {
            let item = tokio::select! {
                item = stream.next() => item?,
                _ = interrupt.next() => return Ok(0),
            };
            let is_over = match &item {
                None | Some(StreamItem::End) => true,
                Some(StreamItem::Event { event, .. }) => is_last(&event.kind),
                Some(_) => continue,
            };
            self.read_on(cx, &mut at).await?;
            if is_over && cx.client.task(self.task).await?.ended.is_some() {
                return Ok(0);
            }
        }
    }

    /// Shows everything that is new.
    async fn read_on(&self, cx: &Connection, at: &mut Option<String>) -> Result<(), Problem> {
        let show = cx.show;
        loop {
            let page = cx.client.task_logs(self.task, at.as_deref(), Some(500)).await?;
            for entry in &page.items {
                show.write(&log_text(&show, entry)?)?;
            }
            let is_last = page.items.is_empty() || page.next.is_none() || page.next == *at;
            *at = page.next.or(at.take());
            if is_last {
                return Ok(());
            }
        }
    }
}

impl EventArgs {
    /// Shows what happened.
    pub(crate) async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let show = cx.show;
        if !self.follow {
            let mut at = self.after.clone();
            loop {
                let batch = cx.client.task_events(self.task, at.as_deref(), Some(500)).await?;
                for event in &batch.run_events {
                    show.write(&event_text(&show, event)?)?;
                }
                if !batch.more {
                    return Ok(0);
                }
                at = Some(batch.next);
            }
        }
        let found = cx.client.task(self.task).await?;
        cx.work_on(&found.session).await?;
        let mut interrupt = Interrupt::listen().map_err(|error| Problem::io("signals", &error))?;
        let watch = Watch { after: self.after.clone(), deltas: false, ..Watch::default() };
        let mut stream = cx.client.watch_task(self.task, watch);
        loop {
            let item = tokio::select! {
                item = stream.next() => item?,
                _ = interrupt.next() => return Ok(0),
            };
            match item {
                None | Some(StreamItem::End) => return Ok(0),
                Some(StreamItem::Event { event, .. }) => {
                    show.write(&event_text(&show, &event)?)?;
                    if is_last(&event.kind) && cx.client.task(self.task).await?.ended.is_some() {
                        return Ok(0);
                    }
                }
                Some(_) => {}
            }
        }
    }
}

/// True if an event of this kind is the last one of its run.
fn is_last(kind: &str) -> bool {
    DurableEventKind::from_name(kind).is_some_and(DurableEventKind::is_terminal)
}

fn log_text(show: &Show, entry: &LogEntry) -> Result<String, Problem> {
    match show.format {
        Format::Table => {
            let text = printable(entry.text.trim_end()).replace('\n', "\n           ");
            Ok(format!("{:<9}  {text}\n", speaker(entry)))
        }
        _ => line(entry),
    }
}

/// An event as a line.
pub(crate) fn event_text(show: &Show, event: &provost_api::RunEvent) -> Result<String, Problem> {
    match show.format {
        Format::Table => {
            let time = event.at.to_string();
            let summary = crate::render::event::summary(event);
            Ok(printable(&format!("{:>4}  {time}  {summary}\n", event.seq)).into_owned())
        }
        _ => line(event),
    }
}
