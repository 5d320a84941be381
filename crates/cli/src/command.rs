//! The command tree: names, arguments and dispatch.

mod api;
mod groups;
mod local;

use std::ffi::OsString;
use std::future::Future;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind as ParseErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use provost_core::ErrorKind;
use provost_core::resource::HumanDuration;
use serde::de::DeserializeOwned;

use self::api::{
    agent, approval, audit, budget, class, delivery, explain, grant, run as run_command,
    run_connected, schedule, server, session, task, token, top, webhook,
};
use self::local::{chat, completions, db, doctor, exec, model, openapi, secret, serve, tool};
use crate::error::CliError;
use crate::render::output::{Color, Output};

/// Time that runs of this process get to finish before the process exits. Another process can resume unfinished runs.
pub(crate) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

const EXIT_CODES: &str = "\
Use `provost COMMAND --help` for the arguments and examples of a command.

Exit codes:
  0 success, 1 run failed, 2 invalid input, 3 missing or invalid key, 4 denied, 5 not found, 6 conflict,
  7 limit reached, 8 rate limited, 9 unavailable, 10 timeout, 11 malformed response, 70 internal error, 130 cancelled";

/// A runtime for AI agents: chat in the terminal, and durable runs behind an API.
#[derive(Debug, Parser)]
#[command(name = "provost", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    /// When to use colors
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: Color,
    /// Directory of the database, the keys and the modules [env: PROVOST_DATA]
    #[arg(long, global = true, alias = "data", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

/// The commands. The hidden ones are names of earlier versions.
#[derive(Debug, Subcommand)]
enum Command {
    /// Chat with an agent
    Chat(chat::Args),
    /// Send one prompt and print the answer
    Exec(exec::Args),
    /// Run the API server and a worker
    Serve(Box<serve::Args>),
    /// Submit and manage tasks
    Task(task::Args),
    /// Inspect and control runs
    #[command(alias = "runs")]
    Run(run_command::Args),
    /// Show why a run, task or approval is waiting or failed
    Explain(explain::Args),
    /// List and decide approval requests
    Approval(approval::Args),
    /// Inspect conversations
    Session(session::Args),
    /// Manage agents
    Agent(agent::Args),
    /// Manage concurrency limits of execution classes
    Class(class::Args),
    /// Manage spending limits
    Budget(budget::Args),
    /// List models, their capabilities and prices
    #[command(alias = "models")]
    Model(model::Args),
    /// Manage recurring tasks
    Schedule(schedule::Args),
    /// List and revoke standing approvals
    Grant(grant::Args),
    /// Inspect and retry channel deliveries
    Delivery(delivery::Args),
    /// Manage outgoing webhooks
    Webhook(webhook::Args),
    /// Manage API tokens
    Token(token::Args),
    /// Manage encrypted secrets
    Secret(secret::Args),
    /// List, call and test tools
    Tool(Box<tool::Args>),
    /// List audit records of tool calls
    Audit(audit::Args),
    /// Show server status
    Server(server::Args),
    /// Live dashboard of runs and queues
    Top(top::Args),
    /// Print the OpenAPI document of the API
    Openapi(openapi::Args),
    /// Check, back up and restore the database
    Db(db::Args),
    /// Check configuration and connectivity
    Doctor(doctor::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Alias of `approval list`
    #[command(hide = true)]
    Approvals(approval::Alias<approval::ListApprovals>),
    /// Alias of `approval approve`
    #[command(hide = true)]
    Approve(approval::Alias<approval::Approve>),
    /// Alias of `approval deny`
    #[command(hide = true)]
    Deny(approval::Alias<approval::Deny>),
    /// Alias of `approval reply`
    #[command(hide = true)]
    Answer(approval::Alias<approval::Reply>),
}

impl Cli {
    /// Parses the arguments of this process. Exits with a message if they are invalid.
    pub(crate) fn from_env() -> Self {
        let args: Vec<OsString> = std::env::args_os().collect();
        Self::from_args(&args, !io::stdin().is_terminal()).unwrap_or_else(|error| error.exit())
    }

    /// Parses arguments. `provost run PROMPT`, the earlier name of `provost exec PROMPT`, is still accepted.
    fn from_args(args: &[OsString], is_piped: bool) -> Result<Self, clap::Error> {
        Self::parse_args(args).or_else(|error| {
            let place = args.iter().position(|arg| arg == "run");
            let place = place.filter(|place| is_prompt(&error, &args[place + 1..], is_piped));
            let Some(place) = place else { return Err(error) };
            let mut args = args.to_vec();
            args[place] = "exec".into();
            match Self::parse_args(&args) {
                Ok(cli) if matches!(cli.command, Command::Exec(_)) => Ok(cli),
                _ => Err(error),
            }
        })
    }

    /// Parses arguments. An error has the help text of the grouped commands.
    fn parse_args(args: &[OsString]) -> Result<Self, clap::Error> {
        let mut command = Self::grouped_command();
        let matches = command.try_get_matches_from_mut(args)?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }

    /// Returns the command tree, with a help text that groups the commands.
    pub(crate) fn grouped_command() -> clap::Command {
        let command = Self::command();
        let template = groups::help_template(&command);
        command.help_template(template)
    }
}

/// Returns true if the arguments after `run` can be those of `exec`. An argument that resembles a subcommand of `run` is a
/// typing error and not a prompt.
fn is_prompt(error: &clap::Error, args: &[OsString], is_piped: bool) -> bool {
    let root = Cli::command();
    let subcommands = root.find_subcommand("run").into_iter().flat_map(|run| run.get_subcommands());
    let mut names = subcommands.flat_map(|command| command.get_name_and_visible_aliases());
    if names.any(|name| args.iter().any(|arg| arg == name)) {
        return false;
    }
    match error.kind() {
        ParseErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => is_piped,
        ParseErrorKind::UnknownArgument => true,
        ParseErrorKind::InvalidSubcommand => match error.get(ContextKind::SuggestedSubcommand) {
            Some(ContextValue::Strings(similar)) => similar.iter().all(|name| name == "help"),
            Some(ContextValue::String(similar)) => similar == "help",
            _ => true,
        },
        _ => false,
    }
}

/// Runs the command and returns the exit code.
pub(crate) fn run(cli: Cli, output: &Output) -> Result<u8, CliError> {
    let data = cli.data_dir.as_deref();
    match cli.command {
        Command::Chat(args) => chat::run(&args, data, output),
        Command::Exec(args) => exec::run(&args, data, output),
        Command::Serve(args) => serve::run(&args, data, output),
        Command::Task(args) => run_connected(args, data, output),
        Command::Run(args) => run_connected(args, data, output),
        Command::Explain(args) => run_connected(args, data, output),
        Command::Approval(args) => run_connected(args, data, output),
        Command::Session(args) => run_connected(args, data, output),
        Command::Agent(args) => run_connected(args, data, output),
        Command::Class(args) => run_connected(args, data, output),
        Command::Budget(args) => run_connected(args, data, output),
        Command::Model(args) => model::run(&args, output),
        Command::Schedule(args) => run_connected(args, data, output),
        Command::Grant(args) => run_connected(args, data, output),
        Command::Delivery(args) => run_connected(args, data, output),
        Command::Webhook(args) => run_connected(args, data, output),
        Command::Token(args) => run_connected(args, data, output),
        Command::Secret(args) => secret::run(&args, data, output),
        Command::Tool(args) => tool::run(&args, data, output),
        Command::Audit(args) => run_connected(args, data, output),
        Command::Server(args) => run_connected(args, data, output),
        Command::Top(args) => run_connected(args, data, output),
        Command::Openapi(args) => openapi::run(&args, output),
        Command::Db(args) => db::run(&args, data, output),
        Command::Doctor(args) => doctor::run(&args, data, output),
        Command::Completions(args) => completions::run(&args),
        Command::Approvals(alias) => run_connected(approval::Args::from(alias), data, output),
        Command::Approve(alias) => run_connected(approval::Args::from(alias), data, output),
        Command::Deny(alias) => run_connected(approval::Args::from(alias), data, output),
        Command::Answer(alias) => run_connected(approval::Args::from(alias), data, output),
    }
}

/// Runs a future on a new single-threaded runtime. Does not wait for threads that still read input.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::new(ErrorKind::Unavailable, format!("no runtime: {error}")))?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(result)
}

/// Parses a duration such as `30s` or `1m30s`. A number without a unit is in seconds. Zero is an error.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let time = if is_number {
        HumanDuration::parse_duration(&format!("{text}s"))
    } else {
        HumanDuration::parse_duration(text)
    }?;
    if time.is_zero() {
        return Err("the duration must be greater than zero".to_owned());
    }
    Ok(time)
}

/// Parses the name of an enum variant of the API.
fn parse_variant<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
