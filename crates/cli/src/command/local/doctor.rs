//! `provost doctor`: what is set up, what is reachable, what to do next.
//!
//! Invariant: it shows whether a key is set and never what it is.

mod sandbox;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use provost_host::model::{self, Choice, ModelRequest, Models, PROBE_TIMEOUT, Provider};
use serde::Serialize;

use crate::boot;
use crate::data;
use crate::model_catalog::user_catalog;
use crate::problem::Problem;
use crate::render::output::{Output, printable};

/// How long one connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);
/// Where the vendors are.
const VENDORS: [(Provider, &str); 2] = [
    (Provider::OpenAi, "https://api.openai.com/v1"),
    (Provider::Anthropic, "https://api.anthropic.com"),
];

const EXAMPLES: &str = "\
Examples:
  provost doctor
  provost doctor --offline
  provost doctor --json
  provost doctor --sandbox                        tries what sandboxes hold on this machine

It exits with 0 if an agent can run; the built-in demo model counts.";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Do not connect to anything
    #[arg(long)]
    offline: bool,
    /// Try what the sandboxes of this machine hold, instead of looking at the set-up
    #[arg(long)]
    sandbox: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    Info,
    Warning,
    Error,
}

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    /// The model that would be used.
    model: Option<String>,
    checks: Vec<Check>,
    next: Vec<String>,
}

/// Looks around and reports.
pub(crate) fn run(args: &Args, data: Option<&Path>, output: &Output) -> Result<u8, Problem> {
    let env = |name: &str| std::env::var(name).ok();
    let (report, code) = match args.sandbox {
        true => sandbox::examine()?,
        false => examine(args.offline, data, &env),
    };
    let text = if args.json {
        let text = serde_json::to_string_pretty(&report);
        text.map_err(|error| Problem::new(provost_core::ErrorKind::Bug, error.to_string()))? + "\n"
    } else {
        show(&report, output.stdout_color)
    };
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Problem::io("standard output", &error))
        }
        _ => Ok(code),
    }
}

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
    let world = model::Environment { env, ollama: &probe };
    let choice = model::select(&ModelRequest::default(), &world);
    let mut checks = Vec::new();
    let mut code = 0;
    match &choice {
        Ok(choice) => {
            let detail = format!("{}: {}", choice.name(), choice.why);
            checks.push(ok("model", detail));
            if let Err(problem) = open_model(choice) {
                code = problem.kind.exit_code();
                checks.push(bad("model", problem));
            }
        }
        Err(problem) => {
            code = problem.kind.exit_code();
            checks.push(bad("model", problem.clone()));
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
        model: choice.as_ref().ok().map(Choice::name),
        next: next_steps(choice.as_ref().ok()),
        checks,
    };
    (report, code)
}

fn ok(name: &'static str, detail: impl Into<String>) -> Check {
    Check { name, state: State::Ok, detail: detail.into(), help: None }
}

fn bad(name: &'static str, problem: impl Into<Problem>) -> Check {
    let problem = problem.into();
    Check { state: State::Error, help: problem.help, ..ok(name, problem.what) }
}

/// Opens the selected model once, with the user's catalog, to report an invalid key, URL or catalog.
fn open_model(choice: &Choice) -> Result<(), Problem> {
    Models::new(Duration::ZERO, user_catalog()?).open(ModelRequest::default(), choice)?;
    Ok(())
}

fn variables(env: &dyn Fn(&str) -> Option<String>) -> Vec<Check> {
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
        Check {
            state: if is_set { State::Ok } else { State::Info },
            ..ok(name, if is_set { "set" } else { "not set" })
        }
    };
    names.into_iter().map(check).collect()
}

fn ollama(
    is_offline: bool,
    env: &dyn Fn(&str) -> Option<String>,
    probe: &dyn Fn(&model::Address) -> Option<Vec<String>>,
) -> Check {
    let host = env("OLLAMA_HOST").filter(|host| !host.trim().is_empty());
    let address = match model::ollama_address(host.as_deref()) {
        Ok(address) => address,
        Err(problem) => return bad("ollama", problem),
    };
    let at = address.authority();
    let info = |detail: String| Check { state: State::Info, ..ok("ollama", detail) };
    if is_offline {
        return info(format!("not asked at {at} (--offline)"));
    }
    match probe(&address) {
        Some(models) if models.is_empty() => Check {
            state: State::Warning,
            help: Some("run `ollama pull llama3.2`".to_owned()),
            ..ok("ollama", format!("runs at {at} and has no models"))
        },
        Some(models) => ok("ollama", format!("runs at {at}: {}", models.join(", "))),
        None => info(format!("none at {at}")),
    }
}

/// Whether a vendor's server can be reached; only where its key or address is set.
fn vendor_check(
    provider: Provider,
    vendor: &str,
    is_offline: bool,
    env: &dyn Fn(&str) -> Option<String>,
) -> Option<Check> {
    let var = |name: Option<&str>| env(name?).filter(|value| !value.trim().is_empty());
    let url = match (var(provider.base_url_env()), var(provider.key_env())) {
        (Some(url), _) => url.trim().to_owned(),
        (None, Some(_)) => vendor.to_owned(),
        (None, None) => return None,
    };
    let name = provider.as_str();
    let address = match model::parse_url(&url) {
        Ok(address) => address,
        Err(problem) => return Some(bad(name, problem)),
    };
    let at = address.authority();
    if is_offline {
        return Some(Check {
            state: State::Info,
            ..ok(name, format!("not asked at {at} (--offline)"))
        });
    }
    Some(match model::connect(&address, CONNECT_TIMEOUT) {
        Ok(_) => ok(name, format!("{at} is reachable")),
        Err(why) => Check {
            state: State::Warning,
            help: Some("check the network, a proxy, or the base URL".to_owned()),
            ..ok(name, format!("{at} is not reachable: {why}"))
        },
    })
}

/// Where conversations are kept, and how much there is; the number is the exit code, since nothing runs without it.
fn data_checks(given: Option<&Path>, env: &dyn Fn(&str) -> Option<String>) -> (Vec<Check>, u8) {
    const NAME: &str = "data directory";
    let found = data::dir(given, env).and_then(|dir| writable(&dir).map(|()| dir));
    let dir = match found {
        Ok(dir) => dir,
        Err(problem) => {
            let code = problem.kind.exit_code();
            return (vec![bad(NAME, problem)], code);
        }
    };
    let database = match std::fs::metadata(boot::database::path(&dir)) {
        Ok(file) => ok("database", format!("{} KiB", file.len().div_ceil(1024))),
        Err(_) => Check { state: State::Info, ..ok("database", "none yet") },
    };
    (vec![ok(NAME, dir.display().to_string()), database], 0)
}

fn writable(dir: &Path) -> Result<(), Problem> {
    data::make(dir)?;
    let probe = dir.join(format!(".doctor-{}", std::process::id()));
    let written = std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe));
    written.map_err(|error| {
        Problem::io(dir.display(), &error)
            .help("correct its rights, or choose another with --data DIR or PROVOST_DATA")
    })
}

fn terminal(env: &dyn Fn(&str) -> Option<String>) -> Check {
    let is_tty = io::stdout().is_terminal() && io::stdin().is_terminal();
    let term = env("TERM").unwrap_or_else(|| "not set".to_owned());
    let color = if env("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        "no colour (NO_COLOR)"
    } else {
        "colour"
    };
    if !is_tty {
        return Check {
            state: State::Info,
            ..ok("terminal", "none: `provost chat` reads lines and writes text")
        };
    }
    let size = match ratatui::crossterm::terminal::size() {
        Ok((columns, rows)) => format!("{columns}x{rows}"),
        Err(error) => format!("size unknown ({error})"),
    };
    ok("terminal", format!("{term}, {size}, {color}"))
}

fn next_steps(choice: Option<&Choice>) -> Vec<String> {
    let steps: &[&str] = match choice.map(|choice| choice.provider) {
        Some(Provider::Demo) => &[
            "provost chat: talk to the demo model now",
            "export OPENAI_API_KEY=... or ANTHROPIC_API_KEY=...: use a hosted model",
            "ollama pull llama3.2: use a model on this machine",
            "provost chat --model NAME --base-url URL: use any OpenAI-compatible server",
        ],
        Some(_) => &["provost chat: talk to the agent"],
        None => &["provost chat --model demo: works without any set-up"],
    };
    steps.iter().map(|&step| step.to_owned()).collect()
}

fn show(report: &Report, has_color: bool) -> String {
    let mut text = format!("provost {}\n\n", report.version);
    for check in &report.checks {
        let (mark, color) = match check.state {
            State::Ok => ("✓", "32"),
            State::Info => ("·", "2"),
            State::Warning => ("!", "33"),
            State::Error => ("✗", "31"),
        };
        let mark = if has_color { format!("\x1b[{color}m{mark}\x1b[0m") } else { mark.to_owned() };
        // Some of it was said by others: the names of an Ollama's models.
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
