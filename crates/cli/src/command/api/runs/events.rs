//! `provost runs events`: what happened in a run, now and as it goes on.

use provost_api::{StreamItem, Watch};
use provost_core::RunId;

use super::super::task::event_text;
use crate::interrupt::Interrupt;
use crate::problem::Problem;
use crate::remote::Connection;
use crate::render::show::{Format, line};

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  provost runs events run_01…\n  provost runs events run_01… --follow -o jsonl\n  \
                        provost runs events run_01… --follow --deltas -o jsonl"
)]
pub(crate) struct Args {
    /// The run
    run: RunId,
    /// Only what comes after this cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Go on until the run is over
    #[arg(long, short)]
    follow: bool,
    /// Also live pieces, which are never stored
    #[arg(long, requires = "follow")]
    deltas: bool,
}

impl Args {
    /// Shows what happened.
    pub(crate) async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let show = cx.show;
        if !self.follow {
            let mut at = self.after.clone();
            loop {
                let page = cx.client.run_events(self.run, at.as_deref(), Some(500)).await?;
                for event in &page.items {
                    show.write(&event_text(&show, event)?)?;
                }
                if page.items.is_empty() || page.next.is_none() || page.next == at {
                    return Ok(0);
                }
                at = page.next;
            }
        }
        let found = cx.client.run(self.run).await?;
        if found.ended.is_none() {
            cx.work_on(&found.session).await?;
        }
        let mut interrupt = Interrupt::listen().map_err(|error| Problem::io("signals", &error))?;
        let watch = Watch { after: self.after.clone(), deltas: self.deltas, ..Watch::default() };
        let mut stream = cx.client.watch_run(self.run, watch);
        loop {
            let item = tokio::select! {
                item = stream.next() => item?,
                _ = interrupt.next() => return Ok(0),
            };
            match item {
                None | Some(StreamItem::End) => return Ok(0),
                Some(StreamItem::Event { event, .. }) => show.write(&event_text(&show, &event)?)?,
                Some(StreamItem::Delta(delta)) if show.format != Format::Table => {
                    show.write(&line(&delta)?)?;
                }
                Some(StreamItem::Reset) => show.output.dim("· the log begins anew"),
                Some(_) => {}
            }
        }
    }
}
