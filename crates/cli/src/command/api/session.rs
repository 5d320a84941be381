//! `provost session`: conversations and what was said in them.

use std::time::Duration;

use clap::Subcommand;
use provost_api::{Paging, SessionList, StreamItem, Watch};
use provost_core::scheduling::{InputMode, InputQueueOverride, OverflowPolicy};

use super::listing::ListArgs;
use super::task::event_text;
use super::{ApiCommand, parse_duration, parse_word};
use crate::interrupt::Interrupt;
use crate::problem::Problem;
use crate::remote::{Connection, ConnectionArgs};
use crate::render::show::Format;

const EXAMPLES: &str = "\
Examples:
  provost session list
  provost session show my-session
  provost session show my-session -o json
  provost session events my-session
  provost session queue my-session --mode collect";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: ConnectionArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List conversations
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  provost session list --agent helper\n  provost session list --watch"
    )]
    List {
        /// Only with this agent
        #[arg(long)]
        agent: Option<String>,
        /// Only with this key
        #[arg(long)]
        key: Option<String>,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show a conversation and what was said in it
    #[command(after_help = "Examples:\n  provost session show my-session --limit 20")]
    Show {
        /// The session
        session: String,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show what happens in a conversation, as it happens, until Ctrl-C
    #[command(
        after_help = "Examples:\n  provost session events my-session\n  provost session events my-session -o jsonl"
    )]
    Events {
        /// The session
        session: String,
        /// Only what comes after this cursor; everything that is kept if nothing is said
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
    },
    /// Say how messages wait in a conversation that is busy
    #[command(
        after_help = "Examples:\n  provost session queue my-session --mode collect --debounce 2s\n  \
                      provost session queue my-session        as everywhere else"
    )]
    Queue {
        /// The session
        session: String,
        #[command(flatten)]
        queue: QueueArgs,
    },
}

/// How messages wait; what is left out is as everywhere else.
#[derive(Debug, clap::Args)]
struct QueueArgs {
    /// steer, followup, collect, interrupt or queue
    #[arg(long, value_name = "MODE")]
    mode: Option<InputMode>,
    /// How many wait at most
    #[arg(long, value_name = "N")]
    cap: Option<usize>,
    /// How long collected messages wait for another one: 500ms, 2s
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    debounce: Option<Duration>,
    /// What goes if there are too many: old, new, summarize
    #[arg(long, value_name = "WHAT", value_parser = parse_word::<OverflowPolicy>)]
    drop: Option<OverflowPolicy>,
}

impl QueueArgs {
    fn queue(&self) -> InputQueueOverride {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        InputQueueOverride {
            mode: self.mode,
            cap: self.cap,
            debounce_ms: self.debounce.map(millis),
            drop: self.drop,
        }
    }
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let (client, show) = (&cx.client, &cx.show);
        match &self.action {
            Action::List { agent, key, list } => {
                let asked = SessionList {
                    agent: agent.clone(),
                    key: key.clone(),
                    limit: list.limit,
                    cursor: list.cursor.clone(),
                };
                list.run(show, async || client.sessions(&asked).await).await
            }
            Action::Show { session, list } => {
                let found = client.session(session).await?;
                if show.format == Format::Table {
                    show.one(&found, session)?;
                    show.write("\n")?;
                }
                let paging: Paging = list.paging();
                list.run(show, async || client.session_messages(session, &paging).await).await
            }
            Action::Events { session, after } => watch(cx, session, after.clone()).await,
            Action::Queue { session, queue } => {
                let set = client.set_session_queue(session, &queue.queue()).await?;
                let mode = queue
                    .mode
                    .map_or_else(|| "as everywhere else".to_owned(), |mode| mode.to_string());
                show.done(&set, session, &format!("{session}: {mode}"))?;
                Ok(0)
            }
        }
    }
}

async fn watch(cx: &Connection, session: &str, after: Option<String>) -> Result<u8, Problem> {
    let show = &cx.show;
    let mut interrupt = Interrupt::listen().map_err(|error| Problem::io("signals", &error))?;
    let watch = Watch { after, deltas: false, ..Watch::default() };
    let mut stream = cx.client.watch_session(session, watch)?;
    loop {
        let item = tokio::select! {
            item = stream.next() => item?,
            _ = interrupt.next() => return Ok(0),
        };
        match item {
            None | Some(StreamItem::End) => return Ok(0),
            Some(StreamItem::Event { event, .. }) => show.write(&event_text(show, &event)?)?,
            Some(StreamItem::Reset) => show.output.dim("· the log begins anew"),
            Some(_) => {}
        }
    }
}
