//! `provost openapi`: the description of the API, for programs that make clients of it.

use crate::problem::Problem;
use crate::render::output::Output;
use crate::render::show::{Format, Show};

const EXAMPLES: &str = "\
Examples:
  provost openapi > openapi.json
  provost openapi -o yaml | less

It needs no server: it is what this program serves at /openapi.json.";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// In which form: json, yaml
    #[arg(long, short, value_enum, default_value = "json", hide_possible_values = true)]
    output: Format,
}

/// Prints it.
pub(crate) fn run(args: &Args, output: &Output) -> Result<u8, Problem> {
    let format = if args.output == Format::Table { Format::Json } else { args.output };
    Show { output: *output, format }.one(&provost_server::openapi(), "openapi")?;
    Ok(0)
}
