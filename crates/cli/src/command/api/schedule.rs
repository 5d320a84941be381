//! `provost schedule`: manages tasks that are submitted at fixed times.

use std::time::Duration;

use clap::Subcommand;
use provost_api::{DateTime, MessageInput, NewTask, OverlapPolicy, ScheduleChange, ScheduleTiming};
use provost_core::id::name::SessionName;
use serde_json::json;

use super::listing::ListArgs;
use super::{ApiCommand, parse_duration, parse_variant};
use crate::error::CliError;
use crate::remote::{Connection, ConnectionArgs};

const EXAMPLES: &str = "\
Examples:
  provost schedule set report \"write the report\" --cron \"0 9 * * 1-5\" --zone Europe/Berlin
  provost schedule set pulse \"is all well?\" --every 15m --overlap skip
  provost schedule set once \"say hello\" --at 2027-01-01T00:00:00Z
  provost schedule list
  provost schedule pause report
  provost schedule resume report
  provost schedule delete report";

/// Arguments of `provost schedule`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: ScheduleCommand,
    #[command(flatten)]
    remote: ConnectionArgs,
}

#[derive(Debug, Subcommand)]
enum ScheduleCommand {
    /// List schedules
    #[command(visible_alias = "ls", after_help = "Examples:\n  provost schedule list --watch")]
    List(ListArgs),
    /// Show a schedule
    #[command(after_help = "Examples:\n  provost schedule get report -o yaml")]
    Get {
        /// Name of the schedule
        schedule: String,
    },
    /// Create or replace a schedule
    Set(Box<SetArgs>),
    /// Pause a schedule
    #[command(after_help = "Examples:\n  provost schedule pause report")]
    Pause {
        /// Name of the schedule
        schedule: String,
    },
    /// Resume a paused schedule
    #[command(after_help = "Examples:\n  provost schedule resume report")]
    Resume {
        /// Name of the schedule
        schedule: String,
    },
    /// Delete a schedule; its tasks are kept
    #[command(after_help = "Examples:\n  provost schedule delete report")]
    Delete {
        /// Name of the schedule
        schedule: String,
    },
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  provost schedule set report \"write the report\" --cron \"0 9 * * *\"\n  \
                  provost schedule set pulse \"is all well?\" --every 15m --agent watcher"
)]
struct SetArgs {
    /// Name of the schedule
    schedule: String,
    /// Message of each task
    message: String,
    #[command(flatten)]
    timing: TimingArgs,
    /// Time zone of the cron expression; default: UTC
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Agent; default: the default agent of the namespace
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Session of every task; default: a new session for each task
    #[arg(long, value_name = "NAME")]
    session: Option<SessionName>,
    /// Label of each task
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// Handling of start times that were missed: skip, one, all:<number>
    #[arg(long, value_name = "POLICY")]
    catch_up: Option<String>,
    /// Handling of a start while the previous task is active: allow, skip, queue, cancel_previous
    #[arg(
        long,
        value_name = "POLICY",
        default_value = "skip",
        value_parser = parse_variant::<OverlapPolicy>
    )]
    overlap: OverlapPolicy,
    /// Maximum random delay of each start: 30s, 5m
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    jitter: Option<Duration>,
}

/// Start times. Exactly one of the arguments is required.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct TimingArgs {
    /// Cron expression: minute, hour, day of month, month, day of week
    #[arg(long, value_name = "CRON")]
    cron: Option<String>,
    /// Interval between two starts: 30s, 15m, 24h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    every: Option<Duration>,
    /// Time of a single start: 2027-01-01T00:00:00Z
    #[arg(long, value_name = "TIMESTAMP")]
    at: Option<DateTime>,
}

impl TimingArgs {
    /// Returns the timing that the arguments select. Returns an error if they select none.
    fn timing(&self) -> Result<ScheduleTiming, CliError> {
        match (&self.cron, self.every, self.at) {
            (Some(cron), _, _) => Ok(ScheduleTiming::Cron(cron.clone())),
            (None, Some(every), _) => Ok(ScheduleTiming::EveryMs(millis(every))),
            (None, None, Some(at)) => Ok(ScheduleTiming::At(at)),
            (None, None, None) => {
                Err(CliError::invalid("one of --cron, --every or --at is required")
                    .hint("add --cron \"0 9 * * *\", --every 1h or --at TIMESTAMP"))
            }
        }
    }
}

impl SetArgs {
    /// Returns the schedule of the arguments.
    fn change(&self) -> Result<ScheduleChange, CliError> {
        Ok(ScheduleChange {
            timing: self.timing.timing()?,
            zone: self.zone.clone(),
            task: NewTask {
                message: MessageInput::Text(self.message.clone()),
                agent: self.agent.clone(),
                session: self.session.clone(),
                label: self.label.clone(),
                ..NewTask::default()
            },
            catch_up: self.catch_up.clone(),
            overlap: self.overlap,
            jitter_ms: self.jitter.map_or(0, millis),
        })
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        let (client, printer) = (&cx.client, &cx.printer);
        match &self.action {
            ScheduleCommand::List(list) => {
                let paging = list.paging();
                return list.run(printer, async || client.schedules(&paging).await).await;
            }
            ScheduleCommand::Get { schedule } => {
                printer.print_details(&client.schedule(schedule).await?, schedule)?
            }
            ScheduleCommand::Set(args) => {
                let name = &args.schedule;
                let set = client.put_schedule(name, &args.change()?).await?;
                let next = set.next_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
                printer.print_result(&set, name, &format!("{name}: next start {next}"))?;
            }
            ScheduleCommand::Pause { schedule } => {
                let paused = client.pause_schedule(schedule, true).await?;
                printer.print_result(&paused, schedule, &format!("paused {schedule}"))?;
            }
            ScheduleCommand::Resume { schedule } => {
                let resumed = client.pause_schedule(schedule, false).await?;
                printer.print_result(&resumed, schedule, &format!("resumed {schedule}"))?;
            }
            ScheduleCommand::Delete { schedule } => {
                client.delete_schedule(schedule).await?;
                printer.print_result(
                    &json!({ "id": schedule }),
                    schedule,
                    &format!("deleted {schedule}"),
                )?;
            }
        }
        Ok(0)
    }
}
