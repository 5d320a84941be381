//! `provost run events`: lists or follows the durable events of a run.

use provost_api::{StreamItem, WatchOptions};
use provost_core::RunId;

use super::super::task::event_text;
use crate::error::CliError;
use crate::remote::Connection;
use crate::render::printer::{Format, line};
use crate::signal::Signals;

/// Arguments of `provost run events`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  provost run events run_01…\n  provost run events run_01… --follow -o jsonl\n  \
                        provost run events run_01… --follow --deltas -o jsonl"
)]
pub(crate) struct Args {
    /// Id of the run
    run: RunId,
    /// Only events after this cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Follow new events until the run has ended
    #[arg(long, short)]
    follow: bool,
    /// Include deltas of unfinished responses, which are never stored
    #[arg(long, requires = "follow")]
    deltas: bool,
}

impl Args {
    /// Prints the events.
    pub(crate) async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        let printer = cx.printer;
        if !self.follow {
            let mut cursor = self.after.clone();
            loop {
                let page = cx.client.run_events(self.run, cursor.as_deref(), Some(500)).await?;
                for event in &page.items {
                    printer.write(&event_text(&printer, event)?)?;
                }
                if page.items.is_empty() || page.next.is_none() || page.next == cursor {
                    return Ok(0);
                }
                cursor = page.next;
            }
        }
        let found = cx.client.run(self.run).await?;
        if found.ended.is_none() {
            cx.process_session(&found.session).await?;
        }
        let mut signals = Signals::listen().map_err(|error| CliError::io("signals", &error))?;
        let watch = WatchOptions {
            after: self.after.clone(),
            deltas: self.deltas,
            ..WatchOptions::default()
        };
        let mut stream = cx.client.watch_run(self.run, watch);
        loop {
            let item = tokio::select! {
                item = stream.next() => item?,
                _ = signals.next() => return Ok(0),
            };
            match item {
                None | Some(StreamItem::End) => return Ok(0),
                Some(StreamItem::Event { event, .. }) => {
                    printer.write(&event_text(&printer, &event)?)?
                }
                Some(StreamItem::Delta(delta)) if printer.format != Format::Table => {
                    printer.write(&line(&delta)?)?;
                }
                Some(StreamItem::Reset) => {
                    printer.output.note("· event log was reset; replaying from the start")
                }
                Some(_) => {}
            }
        }
    }
}
