//! `provost completions`: a completion script for a shell.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;
use crate::problem::Problem;

const EXAMPLES: &str = "\
Examples:
  provost completions bash > ~/.local/share/bash-completion/completions/provost
  provost completions zsh > \"${fpath[1]}/_provost\"
  provost completions fish > ~/.config/fish/completions/provost.fish";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &Args) -> Result<u8, Problem> {
    // Made in memory first: the generator cannot stand a reader that goes away.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "provost", &mut script);
    match io::stdout().lock().write_all(&script) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Problem::io("standard output", &error))
        }
        _ => Ok(0),
    }
}
