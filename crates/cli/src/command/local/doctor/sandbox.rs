//! `provost doctor --sandbox`: what sandboxes hold on this machine, found out by trying.

use std::sync::Arc;

use provost_core::ErrorKind;
use provost_core::resource::IsolationMode;
use provost_host::{HAS_WASM, examine_modules};
use provost_sandbox::{
    Backends, Container, ContainerOptions, Launcher, Proof, Source, Trial, examine as tried,
};

use super::{Check, Report, State, ok};
use crate::command::block_on;
use crate::command::tool::BUILD_WITH_WASM;
use crate::problem::Problem;

/// What runs containers of the programs of this machine, without an image: that can be tried everywhere. What else an operator
/// sets up is tried when it is opened.
const ENGINES: [&str; 3] = ["runc", "crun", "podman"];

/// Tries every backend. The number is the exit code: something that a backend says it holds and does not is an error.
pub(super) fn examine() -> Result<(Report, u8), Problem> {
    let launcher = Launcher::own();
    let launcher = launcher.map_err(|error| Problem::io("this program", &error))?;
    let (mut trials, missing, modules) = block_on(async {
        let mut backends = Backends::find(Some(launcher)).await;
        match container().await {
            Ok(container) => backends.add(Arc::new(container)),
            Err(why) => backends.miss(IsolationMode::Container, why),
        }
        let missing: Vec<_> =
            backends.missing().map(|(mode, why)| (mode, why.to_owned())).collect();
        (tried(&backends).await, missing, examine_modules().await)
    })?;
    let mut checks: Vec<Check> = Vec::new();
    for (mode, why) in missing {
        checks.push(Check {
            state: State::Warning,
            help: Some("tools that demand it do not run: isolation_unavailable".to_owned()),
            ..ok("sandbox", format!("{mode}: {why}"))
        });
    }
    match modules {
        Ok(found) => trials.extend(found),
        Err(why) => checks.push(Check {
            state: State::Warning,
            help: Some(match HAS_WASM {
                true => "tools of type `wasm` do not run: isolation_unavailable".to_owned(),
                false => format!("tools of type `wasm` do not run; {BUILD_WITH_WASM}"),
            }),
            ..ok("sandbox", format!("{}: {why}", IsolationMode::Wasm))
        }),
    }
    let is_kept = |trial: &&Trial| trial.backend != "none";
    checks.extend(trials.iter().filter(is_kept).map(check));
    let is_broken = checks.iter().any(|check| check.state == State::Error);
    let code = if is_broken { ErrorKind::Unavailable.exit_code() } else { 0 };
    let next = match is_broken {
        true => vec!["do not run what you do not trust on this machine".to_owned()],
        false => vec!["scripts/stress sandbox: tries more, where the sources are".to_owned()],
    };
    Ok((Report { version: env!("CARGO_PKG_VERSION"), model: None, checks, next }, code))
}

/// The first engine that works here; or why none does.
async fn container() -> Result<Container, String> {
    let mut why = Vec::new();
    for engine in ENGINES {
        match Container::open(ContainerOptions::new(engine, Source::Machine)).await {
            Ok(container) => return Ok(container),
            Err(error) => why.push(format!("{engine}: {error}")),
        }
    }
    Err(why.join("; "))
}

fn check(trial: &Trial) -> Check {
    let (name, what, how) = (trial.backend, trial.what, &trial.how);
    match (&trial.proof, trial.is_held) {
        (Proof::Held, _) => ok(name, format!("{what}: held by {how}")),
        (Proof::Broken(why), _) => Check {
            state: State::Error,
            help: Some(format!("it should be held by {how}")),
            ..ok(name, format!("{what}: NOT HELD, {why}"))
        },
        (Proof::NotTried(why), true) => {
            Check { state: State::Info, ..ok(name, format!("{what}: by {how} (not tried: {why})")) }
        }
        (Proof::NotTried(_), false) => {
            Check { state: State::Warning, ..ok(name, format!("{what}: not held, {how}")) }
        }
    }
}
