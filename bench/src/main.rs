//! What Provost costs, against a hand-written loop and a hand-written journal: one table of ratios against limits.
//!
//! The binary starts itself again for everything that needs a process of its own: the fake provider, so that its work is not
//! counted as the client's, each side of a crowd, so that its memory and its processor time are its own, and whatever is to be
//! killed.

mod alloc;
mod baseline;
mod copies;
mod disk;
mod engine;
mod measure;
mod ours;
mod scenario;
mod server;
mod side;
mod table;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use crate::scenario::{
    api, cli, crowd, definition, durable, growth, guard, isolation, machine, many, mcp, recall,
    recover, redact, rounds, router, stream, together, wasm, wires,
};
use crate::table::Table;

/// Anything that keeps a measurement from being taken.
type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T, E = Error> = std::result::Result<T, E>;

const USAGE: &str = "usage: provost-bench [--quick] [--strict] [--only SECTION] [--dir DIRECTORY]
  --quick          fewer repetitions: a look, not a verdict
  --strict         exit with 1 if a limit is missed or could not be measured
  --only SECTION   one of rounds, crowd, stream, machine, definition, cli, durable, recover, growth, many,
                   together, recall, mcp, redact, guard, router, api, wires, wasm, isolation
  --dir DIRECTORY  where the databases are made, and removed afterwards; beside this binary if it is not given";

/// How much to measure.
#[derive(Debug, Clone, Copy)]
struct Plan {
    quick: bool,
}

impl Plan {
    /// One number for a real measurement, one for a quick look.
    fn pick<T>(self, thorough: T, quick: T) -> T {
        if self.quick { quick } else { thorough }
    }
}

/// A part of the table.
struct Section {
    name: &'static str,
    measure: Measure,
}

enum Measure {
    Alone(fn(Plan, &mut Table) -> Result<()>),
    /// Against the fake provider.
    Served(fn(Plan, &str, &mut Table) -> Result<()>),
    /// With databases in a directory.
    Stored(fn(Plan, &Path, &mut Table) -> Result<()>),
}

const SECTIONS: [Section; 20] = [
    Section { name: "rounds", measure: Measure::Served(rounds::measure) },
    Section { name: "crowd", measure: Measure::Served(crowd::measure) },
    Section { name: "stream", measure: Measure::Served(stream::measure) },
    Section { name: "machine", measure: Measure::Alone(machine::measure) },
    Section { name: "definition", measure: Measure::Alone(definition::measure) },
    Section { name: "cli", measure: Measure::Alone(cli::measure) },
    Section { name: "durable", measure: Measure::Stored(durable::measure) },
    Section { name: "recover", measure: Measure::Stored(recover::measure) },
    Section { name: "growth", measure: Measure::Stored(growth::measure) },
    Section { name: "many", measure: Measure::Stored(many::measure) },
    Section { name: "together", measure: Measure::Stored(together::measure) },
    Section { name: "recall", measure: Measure::Stored(recall::measure) },
    Section { name: "mcp", measure: Measure::Alone(mcp::measure) },
    Section { name: "redact", measure: Measure::Alone(redact::measure) },
    Section { name: "guard", measure: Measure::Alone(guard::measure) },
    Section { name: "router", measure: Measure::Alone(router::measure) },
    Section { name: "api", measure: Measure::Stored(api::measure) },
    Section { name: "wires", measure: Measure::Alone(wires::measure) },
    Section { name: "wasm", measure: Measure::Alone(wasm::measure) },
    Section { name: "isolation", measure: Measure::Alone(isolation::measure) },
];

fn main() -> ExitCode {
    // A sandbox of ours starts this program again as its launcher.
    if let Some(code) = provost_sandbox::launcher::run_if_asked() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            // Without a place to say it the exit code has to do.
            let _said = writeln!(std::io::stderr(), "{error}").is_ok();
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[&str]) -> Result<ExitCode> {
    match arguments {
        [server::COMMAND] => server::serve()?,
        [mcp::COMMAND] => mcp::serve()?,
        [isolation::COMMAND] => isolation::bare_landlock()?,
        [crowd::COMMAND, side, url] => crowd::run(side, url)?,
        [durable::COMMAND, side, url, dir] => durable::run(side, url, dir)?,
        [recover::COMMAND, part, url, dir] => recover::run(part, url, dir)?,
        [many::COMMAND, part, dir, count] => many::run(part, dir, count)?,
        [api::COMMAND, side, dir] => api::run(side, dir)?,
        _ => return print_table(arguments),
    }
    Ok(ExitCode::SUCCESS)
}

fn print_table(arguments: &[&str]) -> Result<ExitCode> {
    let (mut plan, mut strict, mut only, mut dir) = (Plan { quick: false }, false, None, None);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match *argument {
            "--quick" => plan.quick = true,
            "--strict" => strict = true,
            "--only" => only = Some(*arguments.next().ok_or(USAGE)?),
            "--dir" => dir = Some(*arguments.next().ok_or(USAGE)?),
            _ => return Err(USAGE.into()),
        }
    }
    let wanted = |section: &&Section| only.is_none_or(|name| name == section.name);
    let sections: Vec<&Section> = SECTIONS.iter().filter(wanted).collect();
    if sections.is_empty() {
        return Err(USAGE.into());
    }
    let mut table = Table::new(measure::machine_facts(plan.quick));
    for section in sections {
        match section.measure {
            Measure::Alone(measure) => measure(plan, &mut table)?,
            Measure::Served(measure) => {
                measure(plan, server::Server::start()?.url(), &mut table)?;
            }
            Measure::Stored(measure) => {
                measure(plan, disk::directory(dir)?.path(), &mut table)?;
            }
        }
    }
    table.print()?;
    let failed = strict && !table.all_passed();
    Ok(ExitCode::from(u8::from(failed)))
}
