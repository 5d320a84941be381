//! `provost doctor --sandbox`: tests the isolation of the sandboxes on this machine.

use std::sync::Arc;

use provost_core::ErrorKind;
use provost_core::resource::IsolationMode;
use provost_host::{HAS_WASM, examine_modules};
use provost_sandbox::{
    Container, ContainerOptions, Launcher, RootfsSource, SandboxRegistry, SelfTestCase,
    SelfTestResult, self_test as tried,
};

use super::{CheckStatus, DoctorCheck, Report, ok};
use crate::command::block_on;
use crate::command::tool::BUILD_WITH_WASM;
use crate::error::CliError;

/// Container engines that can run the programs of this machine without an image, so that a test needs no set-up. Other
/// configurations are tested when they are opened.
const ENGINES: [&str; 3] = ["runc", "crun", "podman"];

/// Tests every backend. The exit code is not 0 if a backend does not enforce a guarantee that it promises.
pub(super) fn examine() -> Result<(Report, u8), CliError> {
    let launcher = Launcher::own();
    let launcher = launcher.map_err(|error| CliError::io("this program", &error))?;
    let (mut trials, missing, modules) = block_on(async {
        let mut backends = SandboxRegistry::detect(Some(launcher)).await;
        match container().await {
            Ok(container) => backends.add(Arc::new(container)),
            Err(why) => backends.mark_unavailable(IsolationMode::Container, why),
        }
        let missing: Vec<_> =
            backends.missing().map(|(mode, why)| (mode, why.to_owned())).collect();
        (tried(&backends).await, missing, examine_modules().await)
    })?;
    let mut checks: Vec<DoctorCheck> = Vec::new();
    for (mode, why) in missing {
        checks.push(DoctorCheck {
            state: CheckStatus::Warning,
            help: Some("tools that require it fail with isolation_unavailable".to_owned()),
            ..ok("sandbox", format!("{mode}: {why}"))
        });
    }
    match modules {
        Ok(found) => trials.extend(found),
        Err(why) => checks.push(DoctorCheck {
            state: CheckStatus::Warning,
            help: Some(match HAS_WASM {
                true => "tools of type `wasm` fail with isolation_unavailable".to_owned(),
                false => format!("tools of type `wasm` are not available; {BUILD_WITH_WASM}"),
            }),
            ..ok("sandbox", format!("{}: {why}", IsolationMode::Wasm))
        }),
    }
    let is_kept = |trial: &&SelfTestCase| trial.backend != "none";
    checks.extend(trials.iter().filter(is_kept).map(check));
    let is_broken = checks.iter().any(|check| check.state == CheckStatus::Error);
    let code = if is_broken { ErrorKind::Unavailable.exit_code() } else { 0 };
    let next = match is_broken {
        true => vec!["do not run untrusted code on this machine".to_owned()],
        false => {
            vec!["scripts/stress sandbox: runs more tests, from the source repository".to_owned()]
        }
    };
    Ok((Report { version: env!("CARGO_PKG_VERSION"), model: None, checks, next }, code))
}

/// Opens the first container engine that works. Returns the errors of all engines if none does.
async fn container() -> Result<Container, String> {
    let mut why = Vec::new();
    for engine in ENGINES {
        match Container::open(ContainerOptions::new(engine, RootfsSource::Host)).await {
            Ok(container) => return Ok(container),
            Err(error) => why.push(format!("{engine}: {error}")),
        }
    }
    Err(why.join("; "))
}

/// Converts the result of a self-test to a check.
fn check(trial: &SelfTestCase) -> DoctorCheck {
    let (name, what, how) = (trial.backend, trial.name, &trial.mechanism);
    match (&trial.result, trial.is_enforced) {
        (SelfTestResult::Passed, _) => ok(name, format!("{what}: enforced by {how}")),
        (SelfTestResult::Failed(why), _) => DoctorCheck {
            state: CheckStatus::Error,
            help: Some(format!("{how} should enforce it")),
            ..ok(name, format!("{what}: NOT ENFORCED, {why}"))
        },
        (SelfTestResult::Skipped(why), true) => DoctorCheck {
            state: CheckStatus::Info,
            ..ok(name, format!("{what}: by {how} (not tested: {why})"))
        },
        (SelfTestResult::Skipped(_), false) => DoctorCheck {
            state: CheckStatus::Warning,
            ..ok(name, format!("{what}: not enforced, {how}"))
        },
    }
}
