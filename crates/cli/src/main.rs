//! The binary `provost`: a chat with agents in the terminal, the API server, and a client of the API.
//!
//! The arguments are parsed before the async runtime starts, so that `--version` and `--help` are fast.

mod args;
mod boot;
mod catalog;
mod chat;
mod command;
mod data;
mod error;
mod follow;
mod model_catalog;
mod remote;
mod render;
mod signal;
mod stdin;
#[cfg(feature = "otel")]
mod telemetry;
mod tui;

use std::process::ExitCode;

use crate::command::Cli;
use crate::render::output::Output;

/// Runs allocate on one thread and free on another. This allocator halves the time of that pattern.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A sandbox starts this program as its launcher, which drops privileges and then executes another program.
    if let Some(code) = provost_sandbox::launcher::run_if_launcher() {
        return code;
    }
    let cli = Cli::from_env();
    let output = Output::detect(cli.color);
    match command::run(cli, &output) {
        Ok(code) => ExitCode::from(code),
        Err(problem) => {
            output.error(&problem);
            ExitCode::from(problem.kind.exit_code())
        }
    }
}
