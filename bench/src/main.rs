//! What Provost costs, against a hand-written loop: one table of ratios against limits.
//!
//! The binary starts itself again for everything that needs a process of its own: the fake provider, so that its work is not
//! counted as the client's, and the crowds, so that each has a peak memory of its own.

mod alloc;
mod cli;
mod crowd;
mod definition;
mod floor;
mod machine;
mod measure;
mod ours;
mod rounds;
mod server;
mod stream;
mod table;

use std::process::ExitCode;

use crate::table::Table;

/// Anything that keeps a measurement from being taken.
type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

const USAGE: &str = "usage: provost-bench [--quick] [--strict]
  --quick   fewer repetitions: a look, not a verdict
  --strict  exit with 1 if a limit is missed or could not be measured";

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

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [server::COMMAND] => server::serve().map(|()| ExitCode::SUCCESS),
        [crowd::COMMAND, side, url, runs, waves] => {
            crowd::run(side, url, runs.parse()?, waves.parse()?).map(|()| ExitCode::SUCCESS)
        }
        flags if flags.iter().all(|flag| matches!(*flag, "--quick" | "--strict")) => {
            let plan = Plan { quick: flags.contains(&"--quick") };
            let table = measure_all(plan)?;
            table.print()?;
            let failed = flags.contains(&"--strict") && !table.all_passed();
            Ok(ExitCode::from(u8::from(failed)))
        }
        _ => Err(USAGE.into()),
    }
}

fn measure_all(plan: Plan) -> Result<Table> {
    let mut table = Table::new(measure::machine_facts(plan.quick));
    let server = server::Server::start()?;
    rounds::measure(plan, server.url(), &mut table)?;
    crowd::measure(plan, server.url(), &mut table)?;
    stream::measure(plan, server.url(), &mut table)?;
    drop(server);
    machine::measure(plan, &mut table)?;
    definition::measure(plan, &mut table)?;
    cli::measure(plan, &mut table)?;
    Ok(table)
}
