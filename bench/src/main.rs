//! Compares the cost of Provost with a hand-written loop and a hand-written journal: one table of ratios with limits.
//!
//! The binary starts itself again for everything that needs a separate process: the fake provider, so that its work
//! does not count as the client's; each side of a comparison, so that memory and processor time are separate; and
//! processes that are killed.

mod alloc;
mod baseline;
mod child_process;
mod disk;
mod engine;
mod measure;
mod provost_side;
mod scenario;
mod seed_data;
mod server;
mod table;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use crate::scenario::{
    api, child_agents, cli, concurrent_runs, definition, durable, growth, guard, isolation,
    large_database, machine, mcp, recall, recover, redact, router, stream, tool_rounds, wasm,
    wires,
};
use crate::table::Table;

/// Any error that prevents a measurement.
type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T, E = Error> = std::result::Result<T, E>;

const USAGE: &str = "usage: provost-bench [--quick] [--strict] [--only SECTION] [--dir DIRECTORY]
  --quick          fewer repetitions, for a first impression
  --strict         exit with 1 if a limit is missed or could not be measured
  --only SECTION   one of rounds, crowd, stream, machine, definition, cli, durable, recover, growth, many,
                   together, recall, mcp, redact, guard, router, api, wires, wasm, isolation
  --dir DIRECTORY  directory of the databases, which are removed afterwards; default: beside this binary";

/// Extent of the measurements.
#[derive(Debug, Clone, Copy)]
struct Plan {
    quick: bool,
}

impl Plan {
    /// Returns the first number for a full measurement, the second one for a quick one.
    fn pick<T>(self, thorough: T, quick: T) -> T {
        if self.quick { quick } else { thorough }
    }
}

/// A section of the table.
struct Scenario {
    name: &'static str,
    measure: MeasureFn,
}

enum MeasureFn {
    Standalone(fn(Plan, &mut Table) -> Result<()>),
    /// With the URL of the fake provider.
    WithProvider(fn(Plan, &str, &mut Table) -> Result<()>),
    /// With a directory for databases.
    WithDirectory(fn(Plan, &Path, &mut Table) -> Result<()>),
}

const SCENARIOS: [Scenario; 20] = [
    Scenario { name: "rounds", measure: MeasureFn::WithProvider(tool_rounds::measure) },
    Scenario { name: "crowd", measure: MeasureFn::WithProvider(concurrent_runs::measure) },
    Scenario { name: "stream", measure: MeasureFn::WithProvider(stream::measure) },
    Scenario { name: "machine", measure: MeasureFn::Standalone(machine::measure) },
    Scenario { name: "definition", measure: MeasureFn::Standalone(definition::measure) },
    Scenario { name: "cli", measure: MeasureFn::Standalone(cli::measure) },
    Scenario { name: "durable", measure: MeasureFn::WithDirectory(durable::measure) },
    Scenario { name: "recover", measure: MeasureFn::WithDirectory(recover::measure) },
    Scenario { name: "growth", measure: MeasureFn::WithDirectory(growth::measure) },
    Scenario { name: "many", measure: MeasureFn::WithDirectory(large_database::measure) },
    Scenario { name: "together", measure: MeasureFn::WithDirectory(child_agents::measure) },
    Scenario { name: "recall", measure: MeasureFn::WithDirectory(recall::measure) },
    Scenario { name: "mcp", measure: MeasureFn::Standalone(mcp::measure) },
    Scenario { name: "redact", measure: MeasureFn::Standalone(redact::measure) },
    Scenario { name: "guard", measure: MeasureFn::Standalone(guard::measure) },
    Scenario { name: "router", measure: MeasureFn::Standalone(router::measure) },
    Scenario { name: "api", measure: MeasureFn::WithDirectory(api::measure) },
    Scenario { name: "wires", measure: MeasureFn::Standalone(wires::measure) },
    Scenario { name: "wasm", measure: MeasureFn::Standalone(wasm::measure) },
    Scenario { name: "isolation", measure: MeasureFn::Standalone(isolation::measure) },
];

fn main() -> ExitCode {
    // The sandbox starts this program again as its launcher.
    if let Some(code) = provost_sandbox::launcher::run_if_launcher() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            // The exit code reports the error even if standard error is closed.
            let _written = writeln!(std::io::stderr(), "{error}").is_ok();
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[&str]) -> Result<ExitCode> {
    match arguments {
        [server::COMMAND] => server::serve()?,
        [mcp::COMMAND] => mcp::serve()?,
        [isolation::COMMAND] => isolation::bare_landlock()?,
        [concurrent_runs::COMMAND, side, url] => concurrent_runs::run(side, url)?,
        [durable::COMMAND, side, url, dir] => durable::run(side, url, dir)?,
        [recover::COMMAND, part, url, dir] => recover::run(part, url, dir)?,
        [large_database::COMMAND, part, dir, count] => large_database::run(part, dir, count)?,
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
    let is_selected = |section: &&Scenario| only.is_none_or(|name| name == section.name);
    let sections: Vec<&Scenario> = SCENARIOS.iter().filter(is_selected).collect();
    if sections.is_empty() {
        return Err(USAGE.into());
    }
    let mut table = Table::new(measure::machine_facts(plan.quick));
    for section in sections {
        match section.measure {
            MeasureFn::Standalone(measure) => measure(plan, &mut table)?,
            MeasureFn::WithProvider(measure) => {
                measure(plan, server::Server::start()?.url(), &mut table)?;
            }
            MeasureFn::WithDirectory(measure) => {
                measure(plan, disk::directory(dir)?.path(), &mut table)?;
            }
        }
    }
    table.print()?;
    let failed = strict && !table.all_passed();
    Ok(ExitCode::from(u8::from(failed)))
}
