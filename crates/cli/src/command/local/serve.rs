//! `provost serve`: runs the API server and a worker.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use provost_core::ErrorKind;
use provost_core::id::name::Namespace;
use provost_host::agent::{HostDefaults, Workspaces};
use provost_host::model::{self, ModelRequest, Models};
use provost_host::tool::{Files, ToolConfig};
use provost_net::Url;
use provost_redact::Redactor;
use provost_server::App;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::args::{ShellArgs, ToolArgs};
use crate::boot::{self, Config, Manifests, Work};
use crate::data;
use crate::error::CliError;
use crate::model_catalog::user_catalog;
use crate::remote::ensure_agent;
use crate::render::output::Output;
use crate::render::printer::{Format, Printer, line};
#[cfg(not(feature = "otel"))]
use crate::render::redacting_log::RedactingStderr;
use crate::signal::{Signal, Signals};

/// Time that runs get to reach a safe point when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

const EXAMPLES: &str = "\
Examples:
  provost serve                                  http://127.0.0.1:7077, with a worker
  provost serve --listen 127.0.0.1:0 --json      a free port, printed as JSON
  provost serve --model ollama/llama3.2          default model of agents
  provost serve --no-worker                     accepts tasks without executing them
  provost serve --manifests manifests/           agents, tools and rules declared in files
  curl -H \"Authorization: Bearer $PROVOST_TOKEN\" http://127.0.0.1:7077/v1/whoami

The first start prints an admin token, only once; `provost token create` on this machine creates further tokens.
SIGHUP reloads --manifests: the next call uses the new manifests, or the log shows why they cannot be loaded.
Ctrl-C or SIGTERM stops the server after active runs have reached a safe point; the next start continues them.";

/// Arguments of `provost serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7077")]
    listen: SocketAddr,
    /// Allow an address that other machines can reach; use a TLS proxy
    #[arg(long, alias = "allow-remote")]
    allow_non_loopback: bool,
    /// Maximum number of concurrent runs
    #[arg(long, aliases = ["capacity", "workers"], value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_concurrent_runs: u32,
    /// Accept tasks without executing them
    #[arg(long)]
    no_worker: bool,
    /// Serve /metrics without a token
    #[arg(long, alias = "open-metrics")]
    public_metrics: bool,
    /// Print the address and the admin token as one line of JSON
    #[arg(long)]
    json: bool,
    /// Level of the log on standard error: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log: tracing_subscriber::filter::LevelFilter,
    /// Default model of agents, as provider/model
    #[arg(long, short, value_name = "MODEL", help_heading = "Agents")]
    model: Option<String>,
    /// Base URL of the provider; any OpenAI-compatible server
    #[arg(long, value_name = "URL", help_heading = "Agents")]
    base_url: Option<String>,
    /// Environment variable with the API key
    #[arg(long, value_name = "NAME", help_heading = "Agents")]
    api_key_env: Option<String>,
    /// Directory that agents with files=ro or files=rw can read, list and search
    #[arg(long, value_name = "DIR", help_heading = "Agents")]
    workspace: Option<PathBuf>,
    /// Let agents with files=rw write and edit files in the workspace, with approval
    #[arg(long, alias = "write", requires = "workspace", help_heading = "Agents")]
    workspace_write: bool,
    #[command(flatten)]
    shell: ShellArgs,
    #[command(flatten)]
    tools: ToolArgs,
    /// URL at which tools send later results to this server; default: the listen address
    #[arg(long, value_name = "URL", requires = "manifests", help_heading = "Declared tools")]
    callback_url: Option<Url>,
}

/// Runs the server until a signal stops it.
pub(crate) fn run(args: &Args, data: Option<&Path>, output: &Output) -> Result<u8, CliError> {
    if !args.listen.ip().is_loopback() && !args.allow_non_loopback {
        let message = format!(
            "other machines can reach {}, and the connection is not encrypted",
            args.listen
        );
        return Err(CliError::new(ErrorKind::Denied, message)
            .hint("listen on 127.0.0.1, or use a TLS proxy and add --allow-non-loopback"));
    }
    let model = ModelRequest {
        model: args.model.clone(),
        base_url: args.base_url.clone(),
        api_key_env: args.api_key_env.clone(),
    };
    if model != ModelRequest::default() {
        // An invalid model must be reported at the start and not by the first run.
        model::select_model(&model)?;
    }
    let dir = data::dir_from_env(data)?;
    let redactor = Redactor::new();
    #[cfg(feature = "otel")]
    let telemetry = crate::telemetry::install(args.log, output, &redactor)?;
    #[cfg(not(feature = "otel"))]
    tracing_subscriber::fmt()
        .with_writer(RedactingStderr(redactor.clone()))
        .with_ansi(output.stderr_color)
        .with_max_level(args.log)
        .try_init()
        .ok();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::new(ErrorKind::Unavailable, format!("no runtime: {error}")))?;
    let code = runtime.block_on(serve(args, HostContext { dir, redactor, model }, output));
    #[cfg(feature = "otel")]
    runtime.block_on(crate::telemetry::close(&telemetry));
    runtime.shutdown_background();
    code
}

/// Serves the API until a signal stops the program. Returns the exit code.
async fn serve(args: &Args, host: HostContext, output: &Output) -> Result<u8, CliError> {
    let (mut signals, reloads) = listen_to_signals(args.tools.manifests.is_some())?;
    let listener = bind(args.listen).await?;
    let mut runtime = boot::build(config(args, host, &listener)?).await?;
    ensure_agent(&runtime.client(Namespace::default())).await?;
    let manifests = runtime.manifests();
    manifests.apply().await?;
    if !args.no_worker {
        runtime.start().await?;
    }
    let app = runtime.app.clone();
    announce(args, &app, &listener, output).await?;
    let _webhooks = app
        .send_webhooks()
        .map_err(|error| CliError::new(ErrorKind::Unavailable, error.to_string()))?;
    let mut stop_signals = signals.clone();
    let server = async {
        let stopped = async { drop(stop_signals.wait_for(|count| *count >= 1).await) };
        let serving = provost_server::serve(app.clone(), listener, stopped);
        tokio::select! {
            () = serving => {}
            () = reload(&manifests, reloads, output) => {}
        }
        runtime.close(DRAIN_TIMEOUT).await;
    };
    tokio::select! {
        () = server => Ok(0),
        // A second signal ends the process without waiting for runs.
        _ = signals.wait_for(|count| *count >= 2) => Ok(ErrorKind::Cancelled.exit_code()),
    }
}

/// Values of the process that a server needs in addition to its arguments.
struct HostContext {
    dir: PathBuf,
    redactor: Redactor,
    model: ModelRequest,
}

/// Returns the configuration of a server behind this listener.
fn config(args: &Args, host: HostContext, listener: &TcpListener) -> Result<Config, CliError> {
    let shell = args.shell.shell()?;
    let defaults = HostDefaults {
        model: host.model,
        notes_dir: host.dir.join("notes"),
        workspaces: Workspaces::new(Files::new(args.workspace.as_ref(), args.workspace_write)?),
        shell: shell.clone(),
        is_terminal: false,
    };
    Ok(Config {
        dir: host.dir,
        redactor: host.redactor,
        models: Arc::new(Models::new(Duration::ZERO, user_catalog()?)),
        defaults,
        tools: ToolConfig {
            callbacks: Some(callback_url(args, listener)?),
            applies_manifests: true,
            ..args.tools.config(shell)?
        },
        work: Work::Service { capacity: args.max_concurrent_runs as usize },
        open_metrics: args.public_metrics,
    })
}

/// Returns the URL at which tools deliver later results.
fn callback_url(args: &Args, listener: &TcpListener) -> Result<Url, CliError> {
    let address = listener.local_addr().map_err(|error| CliError::io("the address", &error))?;
    let base = match &args.callback_url {
        Some(url) => url.clone(),
        None => Url::parse(&format!("http://{address}"))
            .map_err(|error| CliError::new(ErrorKind::Bug, error.to_string()))?,
    };
    let joined = base.join("v1/tool-callbacks");
    joined.map_err(|error| CliError::invalid(format!("--callback-url: {error}")))
}

/// Counts the signals that stop the program, and the signals that reload the manifests. Without manifests, SIGHUP stops
/// the program.
fn listen_to_signals(
    has_manifests: bool,
) -> Result<(watch::Receiver<u32>, watch::Receiver<u32>), CliError> {
    let mut interrupt = Signals::listen().map_err(|error| CliError::io("signals", &error))?;
    let (ends, ended) = watch::channel(0);
    let (reloads, reloaded) = watch::channel(0);
    tokio::spawn(async move {
        loop {
            let counter = match interrupt.next().await {
                Signal::HangUp if has_manifests => &reloads,
                _ => &ends,
            };
            counter.send_modify(|count| *count += 1);
        }
    });
    Ok((ended, reloaded))
}

/// Reloads the manifests at each signal and prints the result. Never returns.
async fn reload(manifests: &Manifests, mut requests: watch::Receiver<u32>, output: &Output) {
    while requests.changed().await.is_ok() {
        match manifests.reload().await {
            Ok(text) => output.note(&text),
            Err(problem) => output.error(&problem),
        }
    }
    std::future::pending().await
}

/// Opens the listening socket. The error has a hint for its cause.
async fn bind(address: SocketAddr) -> Result<TcpListener, CliError> {
    TcpListener::bind(address).await.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "another program, perhaps another `provost serve`, uses the port; select another one with --listen"
            }
            _ => "select another address with --listen",
        };
        let kind = match error.kind() {
            io::ErrorKind::AddrInUse => ErrorKind::Conflict,
            io::ErrorKind::PermissionDenied => ErrorKind::Denied,
            _ => ErrorKind::Unavailable,
        };
        CliError::new(kind, format!("{address}: {error}")).hint(hint)
    })
}

/// Prints the address and, at the first start, the admin token.
async fn announce(
    args: &Args,
    app: &App,
    listener: &TcpListener,
    output: &Output,
) -> Result<(), CliError> {
    let address = listener.local_addr().map_err(|error| CliError::io("the address", &error))?;
    let url = format!("http://{address}");
    let token = app
        .bootstrap_admin_token()
        .await
        .map_err(|problem| CliError::new(problem.kind, problem.detail))?;
    let printer = Printer { output: *output, format: Format::Table };
    if args.json {
        return printer.write(&line(&json!({ "url": url, "token": token }))?);
    }
    let mut text = format!("provost listens on {url}\n");
    if let Some(token) = token {
        text.push_str(&format!(
            "\nAdmin token (shown only once):\n\n  export PROVOST_SERVER={url}\n  \
             export PROVOST_TOKEN={token}\n\n"
        ));
    }
    printer.write(&text)
}
