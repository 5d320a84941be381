//! The binary `provost`: talk to an agent in the terminal, serve runs and drive them.
//!
//! Parsing comes first and needs no runtime, so that `--version` and `--help` cost nothing.

mod args;
mod boot;
mod catalog;
mod chat;
mod command;
mod data;
mod follow;
mod interrupt;
mod model_catalog;
mod problem;
mod remote;
mod render;
mod stdin;
#[cfg(feature = "otel")]
mod telemetry;
mod tui;

use std::process::ExitCode;

use clap::Parser;

use crate::command::Cli;
use crate::render::output::Output;

/// What a run needs is made on one thread and freed on another; with this that takes half the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A sandbox starts this program again, to give up rights before it becomes another one.
    if let Some(code) = provost_sandbox::launcher::run_if_asked() {
        return code;
    }
    let cli = Cli::parse();
    let output = Output::detect(cli.color);
    match command::run(cli, &output) {
        Ok(code) => ExitCode::from(code),
        Err(problem) => {
            output.problem(&problem);
            ExitCode::from(problem.kind.exit_code())
        }
    }
}
