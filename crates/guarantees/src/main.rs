//! Program that the guarantee tests kill: one engine on one database file, with a model and tools whose effects are
//! counted outside of it.
//!
//! Each call opens the database named by `--db` and executes one command. The result is one line of JSON. The command
//! `work` runs until its input is closed or it receives SIGTERM, and prints a line for every durable event of its runs.

mod agent;
mod command;
mod effect_server;
mod governed;
mod options;
mod tool;
mod work;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use crate::options::Options;

fn main() -> ExitCode {
    let options = Options::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).without_time().init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(command::run(options)),
        Err(error) => Err(error.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The exit code reports the error even if standard error is closed.
            let _unread = writeln!(std::io::stderr(), "error: {error}").is_err();
            ExitCode::FAILURE
        }
    }
}

/// Prints a line without buffering.
fn print_line(line: impl std::fmt::Display) {
    let mut stdout = std::io::stdout().lock();
    // If the test has ended, writing fails. The program then ends because its input is closed.
    let _unread = writeln!(stdout, "{line}").and_then(|()| stdout.flush()).is_err();
}
