//! The program that the tests of the guarantees kill: one engine on one database file, with a model and with tools that are
//! counted outside of it.
//!
//! Each call opens the database named by `--db` and does one thing. What comes of it is one line of JSON; `work` goes on until
//! its input is closed or it is asked to end, and prints a line for every durable event of the runs it has to do with.

mod agent;
mod command;
mod governed;
mod ledger;
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
            // If there is nobody to read it, the exit code still tells.
            let _unread = writeln!(std::io::stderr(), "error: {error}").is_err();
            ExitCode::FAILURE
        }
    }
}

/// Prints a line at once.
fn say(line: impl std::fmt::Display) {
    let mut stdout = std::io::stdout().lock();
    // A test that has gone reads nothing; the program then ends because its input is closed.
    let _unread = writeln!(stdout, "{line}").and_then(|()| stdout.flush()).is_err();
}
