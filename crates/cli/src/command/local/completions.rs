//! `provost completions`: prints a completion script for a shell.

use std::io::{self, Write};

use clap_complete::Shell;

use super::Cli;
use crate::error::CliError;

const EXAMPLES: &str = "\
Examples:
  provost completions bash > ~/.local/share/bash-completion/completions/provost
  provost completions zsh > \"${fpath[1]}/_provost\"
  provost completions fish > ~/.config/fish/completions/provost.fish";

/// Arguments of `provost completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completion script.
pub(crate) fn run(args: &Args) -> Result<u8, CliError> {
    // The generator panics if the output is closed, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::grouped_command(), "provost", &mut script);
    match io::stdout().lock().write_all(&script) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::io("standard output", &error))
        }
        _ => Ok(0),
    }
}
