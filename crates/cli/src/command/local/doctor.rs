//! `provost doctor`: checks configuration and connectivity.
//!
//! Invariant: the report shows whether a key is set, and never its value.

mod sandbox;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use provost_host::model::{self, ModelChoice, ModelRequest, Models, PROBE_TIMEOUT, Provider};
use serde::Serialize;

use crate::boot;
use crate::data;
use crate::error::CliError;
use crate::model_catalog::user_catalog;
use crate::render::output::{Output, printable};

/// Timeout of one connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);
/// Default addresses of the vendors.
const VENDORS: [(Provider, &str); 2] = [
    (Provider::OpenAi, "https://api.openai.com/v1"),
    (Provider::Anthropic, "https://api.anthropic.com"),
];

const EXAMPLES: &str = "\
Examples:
  provost doctor
  provost doctor --offline
  provost doctor --json
  provost doctor --sandbox                        tests the isolation of the sandboxes on this machine

The exit code is 0 if an agent can run, even if only with the built-in demo model.";

/// Arguments of `provost doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Do not open network connections
    #[arg(long)]
    offline: bool,
    /// Test the isolation of the sandboxes instead of the configuration
    #[arg(long)]
    sandbox: bool,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum CheckStatus {
    Ok,
    Info,
    Warning,
    Error,
}

#[derive(Debug, Serialize)]
struct DoctorCheck {
    name: &'static str,
    state: CheckStatus,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    /// Model that an agent would use. `None` if no model can be selected.
    model: Option<String>,
    checks: Vec<DoctorCheck>,
    next: Vec<String>,
}

/// Runs the checks and prints the report.
pub(crate) fn run(args: &Args, data: Option<&Path>, output: &Output) -> Result<u8, CliError> {
    let env = |name: &str| std::env::var(name).ok();
    let (report, code) = match args.sandbox {
        true => sandbox::examine()?,
        false => examine(args.offline, data, &env),
    };
    let text = if args.json {
        let text = serde_json::to_string_pretty(&report);
        text.map_err(|error| CliError::new(provost_core::ErrorKind::Bug, error.to_string()))? + "\n"
    } else {
        show(&report, output.stdout_color)
    };
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::io("standard output", &error))
        }
        _ => Ok(code),
    }
}

/// Examines the environment, and returns the report and the exit code.
fn examine(
    is_offline: bool,
    data: Option<&Path>,
    env: &dyn Fn(&str) -> Option<String>,
) -> (Report, u8) {
    let probe = |address: &model::Address| {
        if is_offline {
            return None;
        }
        model::ollama_models(address, PROBE_TIMEOUT)
    };
    let environment = model::Environment { env, ollama: &probe };
    let choice = model::select(&ModelRequest::default(), &environment);
    let mut checks = Vec::new();
    let mut code = 0;
    match &choice {
        Ok(choice) => {
            let detail = format!("{}: {}", choice.name(), choice.reason);
            checks.push(ok("model", detail));
            if let Err(problem) = open_model(choice) {
                code = problem.kind.exit_code();
                checks.push(failed("model", problem));
            }
        }
        Err(problem) => {
            code = problem.kind.exit_code();
            checks.push(failed("model", problem.clone()));
        }
    }
    checks.extend(variables(env));
    checks.push(ollama(is_offline, env, &probe));
    for (provider, vendor) in VENDORS {
        checks.extend(vendor_check(provider, vendor, is_offline, env));
    }
    let (data_checks, data_code) = data_checks(data, env);
    checks.extend(data_checks);
    if code == 0 {
        code = data_code;
    }
    checks.push(terminal(env));
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        model: choice.as_ref().ok().map(ModelChoice::name),
        next: next_steps(choice.as_ref().ok()),
        checks,
    };
    (report, code)
}

fn ok(name: &'static str, detail: impl Into<String>) -> DoctorCheck {
    DoctorCheck { name, state: CheckStatus::Ok, detail: detail.into(), help: None }
}

fn failed(name: &'static str, problem: impl Into<CliError>) -> DoctorCheck {
    let problem = problem.into();
    DoctorCheck { state: CheckStatus::Error, help: problem.hint, ..ok(name, problem.message) }
}

/// Opens the selected model once, with the user's catalog, to report an invalid key, URL or catalog.
fn open_model(choice: &ModelChoice) -> Result<(), CliError> {
    Models::new(Duration::ZERO, user_catalog()?).open(ModelRequest::default(), choice)?;
    Ok(())
}

/// Checks which environment variables are set.
fn variables(env: &dyn Fn(&str) -> Option<String>) -> Vec<DoctorCheck> {
    let names = [
        "PROVOST_MODEL",
        data::VARIABLE,
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "OLLAMA_HOST",
    ];
    let check = |name| {
        let is_set = env(name).is_some_and(|value| !value.trim().is_empty());
        DoctorCheck {
            state: if is_set { CheckStatus::Ok } else { CheckStatus::Info },
            ..ok(name, if is_set { "set" } else { "not set" })
        }
    };
    names.into_iter().map(check).collect()
}

/// Checks whether an Ollama server responds.
fn ollama(
    is_offline: bool,
    env: &dyn Fn(&str) -> Option<String>,
    probe: &dyn Fn(&model::Address) -> Option<Vec<String>>,
) -> DoctorCheck {
    let host = env("OLLAMA_HOST").filter(|host| !host.trim().is_empty());
    let address = match model::ollama_address(host.as_deref()) {
        Ok(address) => address,
        Err(problem) => return failed("ollama", problem),
    };
    let authority = address.authority();
    let info = |detail: String| DoctorCheck { state: CheckStatus::Info, ..ok("ollama", detail) };
    if is_offline {
        return info(format!("not checked: {authority} (--offline)"));
    }
    match probe(&address) {
        Some(models) if models.is_empty() => DoctorCheck {
            state: CheckStatus::Warning,
            help: Some("run `ollama pull llama3.2`".to_owned()),
            ..ok("ollama", format!("runs at {authority} without models"))
        },
        Some(models) => ok("ollama", format!("runs at {authority}: {}", models.join(", "))),
        None => info(format!("not found at {authority}")),
    }
}

/// Checks that the server of a vendor is reachable. `None` if neither its key nor its address is set.
fn vendor_check(
    provider: Provider,
    vendor: &str,
    is_offline: bool,
    env: &dyn Fn(&str) -> Option<String>,
) -> Option<DoctorCheck> {
    let var = |name: Option<&str>| env(name?).filter(|value| !value.trim().is_empty());
    let url = match (var(provider.base_url_env()), var(provider.key_env())) {
        (Some(url), _) => url.trim().to_owned(),
        (None, Some(_)) => vendor.to_owned(),
        (None, None) => return None,
    };
    let name = provider.as_str();
    let address = match model::parse_url(&url) {
        Ok(address) => address,
        Err(problem) => return Some(failed(name, problem)),
    };
    let authority = address.authority();
    if is_offline {
        return Some(DoctorCheck {
            state: CheckStatus::Info,
            ..ok(name, format!("not checked: {authority} (--offline)"))
        });
    }
    Some(match model::connect(&address, CONNECT_TIMEOUT) {
        Ok(_) => ok(name, format!("{authority} is reachable")),
        Err(error) => DoctorCheck {
            state: CheckStatus::Warning,
            help: Some("check the network, the proxy and the base URL".to_owned()),
            ..ok(name, format!("{authority} is not reachable: {error}"))
        },
    })
}

/// Checks the data directory and the database. The exit code is not 0 if the directory is not writable.
fn data_checks(
    flag: Option<&Path>,
    env: &dyn Fn(&str) -> Option<String>,
) -> (Vec<DoctorCheck>, u8) {
    const NAME: &str = "data directory";
    let found = data::dir(flag, env).and_then(|dir| check_writable(&dir).map(|()| dir));
    let dir = match found {
        Ok(dir) => dir,
        Err(problem) => {
            let code = problem.kind.exit_code();
            return (vec![failed(NAME, problem)], code);
        }
    };
    let database = match std::fs::metadata(boot::database::path(&dir)) {
        Ok(file) => ok("database", format!("{} KiB", file.len().div_ceil(1024))),
        Err(_) => DoctorCheck { state: CheckStatus::Info, ..ok("database", "not created yet") },
    };
    (vec![ok(NAME, dir.display().to_string()), database], 0)
}

/// Returns an error if the directory is not writable. Creates it if it does not exist.
fn check_writable(dir: &Path) -> Result<(), CliError> {
    data::create(dir)?;
    let probe = dir.join(format!(".doctor-{}", std::process::id()));
    let written = std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe));
    written.map_err(|error| {
        CliError::io(dir.display(), &error)
            .hint("correct its permissions, or select another directory with --data-dir DIR or PROVOST_DATA")
    })
}

/// Checks the capabilities of the terminal.
fn terminal(env: &dyn Fn(&str) -> Option<String>) -> DoctorCheck {
    let is_tty = io::stdout().is_terminal() && io::stdin().is_terminal();
    let term = env("TERM").unwrap_or_else(|| "not set".to_owned());
    let color = if env("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        "no color (NO_COLOR)"
    } else {
        "color"
    };
    if !is_tty {
        return DoctorCheck {
            state: CheckStatus::Info,
            ..ok("terminal", "not a terminal: `provost chat` reads and writes lines of text")
        };
    }
    let size = match ratatui::crossterm::terminal::size() {
        Ok((columns, rows)) => format!("{columns}x{rows}"),
        Err(error) => format!("size unknown ({error})"),
    };
    ok("terminal", format!("{term}, {size}, {color}"))
}

/// Returns the commands that the user can try next.
fn next_steps(choice: Option<&ModelChoice>) -> Vec<String> {
    let steps: &[&str] = match choice.map(|choice| choice.provider) {
        Some(Provider::Demo) => &[
            "provost chat: chat with the demo model",
            "export OPENAI_API_KEY=... or ANTHROPIC_API_KEY=...: use a hosted model",
            "ollama pull llama3.2: use a model on this machine",
            "provost chat --model NAME --base-url URL: use any OpenAI-compatible server",
        ],
        Some(_) => &["provost chat: chat with the agent"],
        None => {
            &["provost chat --model demo: chat with the demo model, which needs no configuration"]
        }
    };
    steps.iter().map(|&step| step.to_owned()).collect()
}

/// Formats the report for a terminal.
fn show(report: &Report, has_color: bool) -> String {
    let mut text = format!("provost {}\n\n", report.version);
    for check in &report.checks {
        let (mark, color) = match check.state {
            CheckStatus::Ok => ("✓", "32"),
            CheckStatus::Info => ("·", "2"),
            CheckStatus::Warning => ("!", "33"),
            CheckStatus::Error => ("✗", "31"),
        };
        let mark = if has_color { format!("\x1b[{color}m{mark}\x1b[0m") } else { mark.to_owned() };
        // A part of the text comes from other programs, such as the names of Ollama models.
        let detail = printable(&check.detail);
        text.push_str(&format!("{mark} {:<18} {detail}\n", check.name));
        if let Some(help) = &check.help {
            text.push_str(&format!("  {:<18} → {}\n", "", printable(help)));
        }
    }
    text.push_str("\nNext:\n");
    for step in &report.next {
        text.push_str(&format!("  {step}\n"));
    }
    text
}
