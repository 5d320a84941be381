//! `provost session`: lists sessions, their messages and events.

use std::time::Duration;

use clap::Subcommand;
use provost_api::{PageQuery, SessionQuery, StreamItem, WatchOptions};
use provost_core::scheduling::{InputMode, InputQueueOverride, OverflowPolicy};

use super::listing::ListArgs;
use super::task::event_text;
use super::{ApiCommand, parse_duration, parse_variant};
use crate::error::CliError;
use crate::remote::{Connection, ConnectionArgs};
use crate::render::printer::Format;
use crate::signal::Signals;

const EXAMPLES: &str = "\
Examples:
  provost session list
  provost session get my-session
  provost session messages my-session --limit 20
  provost session events my-session
  provost session queue my-session --mode collect";

/// Arguments of `provost session`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: SessionCommand,
    #[command(flatten)]
    remote: ConnectionArgs,
}

#[derive(Debug, Subcommand)]
enum SessionCommand {
    /// List sessions
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  provost session list --agent helper\n  provost session list --watch"
    )]
    List {
        /// Only sessions of this agent
        #[arg(long)]
        agent: Option<String>,
        /// Only the session with this key
        #[arg(long)]
        key: Option<String>,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show a session
    #[command(after_help = "Examples:\n  provost session get my-session -o yaml")]
    Get {
        /// Id of the session
        session: String,
    },
    /// List the messages of a session
    #[command(after_help = "Examples:\n  provost session messages my-session --limit 20")]
    Messages {
        /// Id of the session
        session: String,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Alias of `session get` and `session messages`
    #[command(hide = true)]
    Show {
        /// Id of the session
        session: String,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Follow the events of a session until Ctrl-C
    #[command(
        after_help = "Examples:\n  provost session events my-session\n  provost session events my-session -o jsonl"
    )]
    Events {
        /// Id of the session
        session: String,
        /// Only events after this cursor; default: all stored events
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
    },
    /// Configure the input queue of a session
    #[command(
        after_help = "Examples:\n  provost session queue my-session --mode collect --debounce 2s\n  \
                      provost session queue my-session        resets to the defaults"
    )]
    Queue {
        /// Id of the session
        session: String,
        #[command(flatten)]
        queue: QueueArgs,
    },
}

/// Settings of an input queue. Missing settings use the defaults of the namespace.
#[derive(Debug, clap::Args)]
struct QueueArgs {
    /// Mode of new messages: steer, followup, collect, interrupt or queue
    #[arg(long, value_name = "MODE")]
    mode: Option<InputMode>,
    /// Maximum number of waiting messages
    #[arg(long, value_name = "N")]
    cap: Option<usize>,
    /// Time to wait for further messages before collecting them: 500ms, 2s
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    debounce: Option<Duration>,
    /// Messages to drop if the queue is full: old, new, summarize
    #[arg(long, value_name = "POLICY", value_parser = parse_variant::<OverflowPolicy>)]
    drop: Option<OverflowPolicy>,
}

impl QueueArgs {
    /// Returns the settings of the input queue.
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

    async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        let (client, printer) = (&cx.client, &cx.printer);
        match &self.action {
            SessionCommand::List { agent, key, list } => {
                let query = SessionQuery {
                    agent: agent.clone(),
                    key: key.clone(),
                    limit: list.limit,
                    cursor: list.cursor.clone(),
                };
                list.run(printer, async || client.sessions(&query).await).await
            }
            SessionCommand::Get { session } => {
                printer.print_details(&client.session(session).await?, session).map(|()| 0)
            }
            SessionCommand::Messages { session, list } => {
                let paging = list.paging();
                list.run(printer, async || client.session_messages(session, &paging).await).await
            }
            SessionCommand::Show { session, list } => {
                let found = client.session(session).await?;
                if printer.format == Format::Table {
                    printer.print_details(&found, session)?;
                    printer.write("\n")?;
                }
                let paging: PageQuery = list.paging();
                list.run(printer, async || client.session_messages(session, &paging).await).await
            }
            SessionCommand::Events { session, after } => watch(cx, session, after.clone()).await,
            SessionCommand::Queue { session, queue } => {
                let set = client.set_session_queue(session, &queue.queue()).await?;
                let mode = queue.mode.map_or_else(|| "default".to_owned(), |mode| mode.to_string());
                printer.print_result(&set, session, &format!("{session}: queue mode {mode}"))?;
                Ok(0)
            }
        }
    }
}

/// Prints the events of a session until the user presses Ctrl-C.
async fn watch(cx: &Connection, session: &str, after: Option<String>) -> Result<u8, CliError> {
    let printer = &cx.printer;
    let mut signals = Signals::listen().map_err(|error| CliError::io("signals", &error))?;
    let watch = WatchOptions { after, deltas: false, ..WatchOptions::default() };
    let mut stream = cx.client.watch_session(session, watch)?;
    loop {
        let item = tokio::select! {
            item = stream.next() => item?,
            _ = signals.next() => return Ok(0),
        };
        match item {
            None | Some(StreamItem::End) => return Ok(0),
            Some(StreamItem::Event { event, .. }) => {
                printer.write(&event_text(printer, &event)?)?
            }
            Some(StreamItem::Reset) => {
                printer.output.note("· event log was reset; replaying from the start")
            }
            Some(_) => {}
        }
    }
}
