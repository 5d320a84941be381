//! The commands: what they are called, what they take, and running one.

mod api;
mod local;

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use provost_core::ErrorKind;
use provost_core::resource::HumanDuration;
use serde::de::DeserializeOwned;

use self::api::{
    agent, approve, audit, budget, class, connected, delivery, explain, grant, runs, schedule,
    server, session, task, token, top, webhook,
};
use self::local::{
    chat, completions, db, doctor, models, openapi, run as ask, secret, serve, tool,
};
use crate::problem::Problem;
use crate::render::output::{Color, Output};

const EXAMPLES: &str = "\
Examples:
  provost chat                                    talk to an agent; without a key it is a demo
  provost run \"what is (2 + 3) * 4?\"              one question, one answer
  provost run --json \"what time is it?\"           the same as JSON events, one per line
  provost db backup backup.db                     a copy of everything that is kept
  provost doctor                                  what is set up, and what to do next
  provost tool list                               what agents can use; `provost tool call` uses it
  provost serve                                   durable runs over HTTP, on this machine
  provost task submit \"what is 6 * 7?\" --wait    hand in work that nothing can lose
  provost explain run_01…                         why something waits or failed

Exit codes:
  0 success, 1 a run failed, 2 bad input, 3 no or wrong key, 4 denied, 5 not found, 6 conflict, 7 limit reached,
  8 rate limited, 9 unavailable, 10 timeout, 11 malformed answer, 70 defect, 130 stopped";

/// An agent in your terminal, and durable runs behind an API.
#[derive(Debug, Parser)]
#[command(name = "provost", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: Color,
    /// Where conversations are kept; PROVOST_DATA says it for all commands
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Talk to an agent
    Chat(chat::Args),
    /// Ask once and print the answer
    Run(ask::Args),
    /// Serve the run API over HTTP and work on what is handed in
    Serve(Box<serve::Args>),
    /// Hand in work, look at it, wait for it, end it
    Task(task::Args),
    /// Look at runs, steer them, fork them, end them
    Runs(runs::Args),
    /// Say why something waits or failed, and what to do
    Explain(explain::Args),
    /// List the questions that wait for a person
    Approvals(approve::ListApprovals),
    /// Say yes to a question
    Approve(approve::ApproveArgs),
    /// Say no to a question
    Deny(approve::DenyArgs),
    /// Answer a question in words
    Answer(approve::AnswerArgs),
    /// Look at conversations
    Session(session::Args),
    /// Make and change agents
    Agent(agent::Args),
    /// Say how many runs may work at once
    Class(class::Args),
    /// Say how much may be spent
    Budget(budget::Args),
    /// Look at models: what they can do and what they cost
    Models(models::Args),
    /// Hand in work by the clock
    Schedule(schedule::Args),
    /// Look at each yes that reaches further than one call, and take it back
    Grant(grant::Args),
    /// Look after answers on their way out
    Delivery(delivery::Args),
    /// Tell addresses what happens
    Webhook(webhook::Args),
    /// Make and take back tokens
    Token(token::Args),
    /// Keep values that tools need, sealed
    Secret(secret::Args),
    /// List, describe, call and test tools
    Tool(Box<tool::Args>),
    /// See who did what with which tool
    Audit(audit::Args),
    /// Look how a server is
    Server(server::Args),
    /// Watch everything live
    Top(top::Args),
    /// Print the OpenAPI document
    Openapi(openapi::Args),
    /// Check, back up, restore and measure the database
    Db(db::Args),
    /// Check what is set up, what is reachable, and what to do next
    Doctor(doctor::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
}

/// Runs the command; the number is the exit code.
pub(crate) fn run(cli: Cli, output: &Output) -> Result<u8, Problem> {
    let data = cli.data.as_deref();
    match cli.command {
        Command::Chat(args) => chat::run(&args, data, output),
        Command::Run(args) => ask::run(&args, data, output),
        Command::Serve(args) => serve::run(&args, data, output),
        Command::Task(args) => connected(args, data, output),
        Command::Runs(args) => connected(args, data, output),
        Command::Explain(args) => connected(args, data, output),
        Command::Approvals(args) => connected(args, data, output),
        Command::Approve(args) => connected(args, data, output),
        Command::Deny(args) => connected(args, data, output),
        Command::Answer(args) => connected(args, data, output),
        Command::Session(args) => connected(args, data, output),
        Command::Agent(args) => connected(args, data, output),
        Command::Class(args) => connected(args, data, output),
        Command::Budget(args) => connected(args, data, output),
        Command::Models(args) => models::run(&args, output),
        Command::Schedule(args) => connected(args, data, output),
        Command::Grant(args) => connected(args, data, output),
        Command::Delivery(args) => connected(args, data, output),
        Command::Webhook(args) => connected(args, data, output),
        Command::Token(args) => connected(args, data, output),
        Command::Secret(args) => secret::run(&args, data, output),
        Command::Tool(args) => tool::run(&args, data, output),
        Command::Audit(args) => connected(args, data, output),
        Command::Server(args) => connected(args, data, output),
        Command::Top(args) => connected(args, data, output),
        Command::Openapi(args) => openapi::run(&args, output),
        Command::Db(args) => db::run(&args, data, output),
        Command::Doctor(args) => doctor::run(&args, data, output),
        Command::Completions(args) => completions::run(&args),
    }
}

/// How long a turn may take to come to an end when the program was told to end. What is not finished then is kept.
pub(crate) const LEAVE_PATIENCE: Duration = Duration::from_secs(2);

/// Runs async work on a runtime that is built only now. Threads that still wait for input do not hold the program up.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Problem> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Problem::new(ErrorKind::Unavailable, format!("no runtime: {error}")))?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(result)
}

pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // A number alone is in seconds.
    let time = if is_number {
        HumanDuration::parse_duration(&format!("{text}s"))
    } else {
        HumanDuration::parse_duration(text)
    }?;
    if time.is_zero() {
        return Err("it must be more than nothing".to_owned());
    }
    Ok(time)
}

/// One of the words that the API knows.
fn parse_word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_command_has_an_argument_by_the_name_of_a_global_flag() {
        fn check(command: &clap::Command, above: &[String]) {
            let own: Vec<_> = command.get_arguments().collect();
            for arg in own.iter().filter(|arg| !arg.is_global_set()) {
                let id = arg.get_id().to_string();
                assert!(!above.contains(&id), "`{id}` of `{}`", command.get_name());
            }
            let global = own.iter().filter(|arg| arg.is_global_set());
            let global = global.map(|arg| arg.get_id().to_string());
            let above: Vec<String> = above.iter().cloned().chain(global).collect();
            command.get_subcommands().for_each(|command| check(command, &above));
        }
        check(&Cli::command(), &[]);
    }

    #[test]
    fn what_explanations_tell_people_to_type_can_be_typed() {
        let id = |prefix: &str| format!("{prefix}_01jd0000000000000000000000");
        let (run, asked) = (id("run"), id("appr"));
        for line in [
            format!("provost explain {run}"),
            "provost serve".to_owned(),
            format!("provost approve {asked}"),
            format!("provost deny {asked}"),
            format!("provost runs cancel {run}"),
            format!("provost runs input {run} …"),
            format!("provost runs resume {run}"),
            format!("provost runs steps {run}"),
            "provost runs list --status running".to_owned(),
            format!("provost task retry {}", id("task")),
            "provost class set execclass_x 8".to_owned(),
            "provost session show chat".to_owned(),
            format!("provost delivery retry {}", id("dlv")),
        ] {
            let parsed = Cli::try_parse_from(line.split(' '));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn durations_have_units() {
        for (text, millis) in
            [("500ms", 500), ("2", 2000), ("30s", 30_000), ("5m", 300_000), ("1m30s", 90_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)));
        }
        for text in ["", "s", "-1s", "1w", "0s", "99999999999999999999", "18446744073709551615h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
