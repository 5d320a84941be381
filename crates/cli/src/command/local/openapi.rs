//! `provost openapi`: prints the OpenAPI document of the API.

use crate::error::CliError;
use crate::render::output::Output;
use crate::render::printer::{Format, Printer};

const EXAMPLES: &str = "\
Examples:
  provost openapi > openapi.json
  provost openapi -o yaml | less

The command needs no server. A server serves the same document at /openapi.json.";

/// Arguments of `provost openapi`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Output format: json, yaml
    #[arg(
        long,
        short,
        value_enum,
        default_value = "json",
        hide_possible_values = true,
        value_name = "FORMAT"
    )]
    output: Format,
}

/// Prints the document.
pub(crate) fn run(args: &Args, output: &Output) -> Result<u8, CliError> {
    let format = if args.output == Format::Table { Format::Json } else { args.output };
    Printer { output: *output, format }.print_details(&provost_server::openapi(), "openapi")?;
    Ok(0)
}
