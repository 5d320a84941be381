//! `provost schedule`: work that is handed in by the clock.

use std::time::Duration;

use clap::Subcommand;
use provost_api::{NewTask, Overlap, Said, ScheduleChange, Time, Timing};
use provost_core::id::name::SessionName;
use serde_json::json;

use super::listing::ListArgs;
use super::{ApiCommand, parse_duration, parse_word};
use crate::problem::Problem;
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
    /// List schedules
    #[command(visible_alias = "ls", after_help = "Examples:\n  provost schedule list --watch")]
    List(ListArgs),
    /// Show everything about a schedule
    #[command(after_help = "Examples:\n  provost schedule get report -o yaml")]
    Get {
        /// The schedule
        schedule: String,
    },
    /// Make a schedule, or change it
    Set(Box<SetArgs>),
    /// Let a schedule ask for nothing for a while
    #[command(after_help = "Examples:\n  provost schedule pause report")]
    Pause {
        /// The schedule
        schedule: String,
    },
    /// Let a paused schedule go on
    #[command(after_help = "Examples:\n  provost schedule resume report")]
    Resume {
        /// The schedule
        schedule: String,
    },
    /// Remove a schedule; what it asked for stays
    #[command(after_help = "Examples:\n  provost schedule delete report")]
    Delete {
        /// The schedule
        schedule: String,
    },
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  provost schedule set report \"write the report\" --cron \"0 9 * * *\"\n  \
                  provost schedule set pulse \"is all well?\" --every 15m --agent watcher"
)]
struct SetArgs {
    /// Its name
    schedule: String,
    /// What is asked each time
    message: String,
    #[command(flatten)]
    when: When,
    /// The time zone of a cron expression; UTC if nothing is said
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Which agent; the namespace's own if none is named
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Which conversation; a new one each time if none is named
    #[arg(long, value_name = "NAME")]
    session: Option<SessionName>,
    /// A name for people
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// Times that nobody could keep: skip, one, all:<number>
    #[arg(long, value_name = "WHAT")]
    catch_up: Option<String>,
    /// If the one before has not ended: allow, skip, queue, cancel_previous
    #[arg(long, value_name = "WHAT", default_value = "skip", value_parser = parse_word::<Overlap>)]
    overlap: Overlap,
    /// By how much it may come later: 30s, 5m
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    jitter: Option<Duration>,
}

/// When it comes: exactly one of these.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct When {
    /// By a cron expression: minute, hour, day of month, month, day of week
    #[arg(long, value_name = "CRON")]
    cron: Option<String>,
    /// Again and again after this time: 30s, 15m, 24h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    every: Option<Duration>,
    /// Once, at this moment: 2027-01-01T00:00:00Z
    #[arg(long, value_name = "MOMENT")]
    at: Option<Time>,
}

impl When {
    fn timing(&self) -> Result<Timing, Problem> {
        match (&self.cron, self.every, self.at) {
            (Some(cron), _, _) => Ok(Timing::Cron(cron.clone())),
            (None, Some(every), _) => Ok(Timing::EveryMs(millis(every))),
            (None, None, Some(at)) => Ok(Timing::At(at)),
            (None, None, None) => Err(Problem::invalid("nobody said when")
                .help("add --cron \"0 9 * * *\", --every 1h or --at MOMENT")),
        }
    }
}

impl SetArgs {
    fn change(&self) -> Result<ScheduleChange, Problem> {
        Ok(ScheduleChange {
            timing: self.when.timing()?,
            zone: self.zone.clone(),
            task: NewTask {
                message: Said::Text(self.message.clone()),
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

    async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let (client, show) = (&cx.client, &cx.show);
        match &self.action {
            Action::List(list) => {
                let paging = list.paging();
                return list.run(show, async || client.schedules(&paging).await).await;
            }
            Action::Get { schedule } => show.one(&client.schedule(schedule).await?, schedule)?,
            Action::Set(args) => {
                let name = &args.schedule;
                let set = client.put_schedule(name, &args.change()?).await?;
                let next = set.next_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
                show.done(&set, name, &format!("{name} comes next: {next}"))?;
            }
            Action::Pause { schedule } => {
                let paused = client.pause_schedule(schedule, true).await?;
                show.done(&paused, schedule, &format!("{schedule} is paused"))?;
            }
            Action::Resume { schedule } => {
                let resumed = client.pause_schedule(schedule, false).await?;
                show.done(&resumed, schedule, &format!("{schedule} goes on"))?;
            }
            Action::Delete { schedule } => {
                client.delete_schedule(schedule).await?;
                show.done(&json!({ "id": schedule }), schedule, &format!("{schedule} is removed"))?;
            }
        }
        Ok(0)
    }
}
