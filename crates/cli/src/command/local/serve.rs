//! `provost serve`: the run API over HTTP, and a worker that carries runs out.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use provost_core::ErrorKind;
use provost_core::id::name::Namespace;
use provost_host::agent::HostDefaults;
use provost_host::model::{self, ModelRequest, Models};
use provost_host::tool::{Files, ToolConfig, ToolProvider};
use provost_net::Url;
use provost_redact::Redactor;
use provost_server::App;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::args::{ShellArgs, ToolArgs};
use crate::boot::{self, Config, Work};
use crate::catalog;
use crate::data;
use crate::interrupt::{Interrupt, Signal};
use crate::model_catalog::user_catalog;
use crate::problem::Problem;
use crate::remote::ensure_agent;
#[cfg(not(feature = "otel"))]
use crate::render::log::Log;
use crate::render::output::Output;
use crate::render::show::{Format, Show, line};

/// How long runs may take to come to a boundary when the server is told to end.
const DRAIN_PATIENCE: Duration = Duration::from_secs(20);

const EXAMPLES: &str = "\
Examples:
  provost serve                                  http://127.0.0.1:7077, with a worker
  provost serve --listen 127.0.0.1:0 --json      a free port, told as JSON
  provost serve --model ollama/llama3.2          the model of agents that name none
  provost serve --no-worker                      only take work in; others carry it out
  provost serve --resources house/               agents, tools and rules declared in files
  curl -H \"Authorization: Bearer $PROVOST_TOKEN\" http://127.0.0.1:7077/v1/whoami

The first start shows a token that may do everything, this once; `provost token create` on this machine makes others.
SIGHUP reads what --resources names anew: the next call goes by it, or it is said why it cannot be used.
Ctrl-C or SIGTERM lets runs come to a safe place and then ends; whatever is not finished goes on with the next start.";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7077")]
    listen: SocketAddr,
    /// Allow an address that other machines can reach: put TLS in front of it
    #[arg(long)]
    allow_remote: bool,
    /// Runs at work at once
    #[arg(long, visible_alias = "workers", value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    capacity: u32,
    /// Take work in, but do none of it
    #[arg(long)]
    no_worker: bool,
    /// Let everybody who can connect read /metrics
    #[arg(long)]
    open_metrics: bool,
    /// Tell the address and the first token as one line of JSON
    #[arg(long)]
    json: bool,
    /// What is written to standard error: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log: tracing_subscriber::filter::LevelFilter,
    /// The model of agents that name none, as provider/model
    #[arg(long, short, value_name = "MODEL", help_heading = "Agents")]
    model: Option<String>,
    /// Where the provider is; any OpenAI-compatible server will do
    #[arg(long, value_name = "URL", help_heading = "Agents")]
    base_url: Option<String>,
    /// The environment variable that holds the key
    #[arg(long, value_name = "NAME", help_heading = "Agents")]
    api_key_env: Option<String>,
    /// A directory that agents with files=ro or files=rw may read, list and search
    #[arg(long, value_name = "DIR", help_heading = "Agents")]
    workspace: Option<PathBuf>,
    /// Let agents with files=rw also write and edit there, asking first
    #[arg(long, requires = "workspace", help_heading = "Agents")]
    write: bool,
    #[command(flatten)]
    shell: ShellArgs,
    #[command(flatten)]
    tools: ToolArgs,
    /// Where tools reach this server with answers that come later, if it is not where it listens
    #[arg(long, value_name = "URL", requires = "resources", help_heading = "Declared tools")]
    callback_url: Option<Url>,
}

/// Serves until it is told to end.
pub(crate) fn run(args: &Args, data: Option<&Path>, output: &Output) -> Result<u8, Problem> {
    if !args.listen.ip().is_loopback() && !args.allow_remote {
        let what = format!("other machines could reach {}, and nothing is encrypted", args.listen);
        return Err(Problem::new(ErrorKind::Denied, what)
            .help("listen on 127.0.0.1, or put TLS in front of it and add --allow-remote"));
    }
    let wanted = ModelRequest {
        model: args.model.clone(),
        base_url: args.base_url.clone(),
        api_key_env: args.api_key_env.clone(),
    };
    if wanted != ModelRequest::default() {
        // What is wrong with it is said now and not by the first run.
        model::choose(&wanted)?;
    }
    let dir = data::real_dir(data)?;
    let redactor = Redactor::new();
    #[cfg(feature = "otel")]
    let telemetry = crate::telemetry::install(args.log, output, &redactor)?;
    #[cfg(not(feature = "otel"))]
    tracing_subscriber::fmt()
        .with_writer(Log(redactor.clone()))
        .with_ansi(output.stderr_color)
        .with_max_level(args.log)
        .try_init()
        .ok();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Problem::new(ErrorKind::Unavailable, format!("no runtime: {error}")))?;
    let code = runtime.block_on(serve(args, Host { dir, redactor, wanted }, output));
    #[cfg(feature = "otel")]
    runtime.block_on(crate::telemetry::close(&telemetry));
    runtime.shutdown_background();
    code
}

async fn serve(args: &Args, host: Host, output: &Output) -> Result<u8, Problem> {
    let (mut signals, reloads) = listen_to_signals(args.tools.resources.is_some())?;
    let listener = bind(args.listen).await?;
    let mut runtime = boot::build(config(args, host, &listener)?).await?;
    ensure_agent(&runtime.client(Namespace::default())).await?;
    catalog::reconcile_agents(&runtime.tools, &runtime.app).await?;
    if !args.no_worker {
        runtime.start().await?;
    }
    let (app, tools) = (runtime.app.clone(), Arc::clone(&runtime.tools));
    announce(args, &app, &listener, output).await?;
    let _webhooks = app
        .send_webhooks()
        .map_err(|error| Problem::new(ErrorKind::Unavailable, error.to_string()))?;
    let mut told = signals.clone();
    let working = async {
        let stopped = async { drop(told.wait_for(|count| *count >= 1).await) };
        let serving = provost_server::serve(app.clone(), listener, stopped);
        tokio::select! {
            () = serving => {}
            () = reload(&tools, &app, reloads, output) => {}
        }
        runtime.close(DRAIN_PATIENCE).await;
    };
    tokio::select! {
        () = working => Ok(0),
        // Whoever asks twice does not want to wait.
        _ = signals.wait_for(|count| *count >= 2) => Ok(ErrorKind::Cancelled.exit_code()),
    }
}

/// What the process brings to a server besides its arguments.
struct Host {
    dir: PathBuf,
    redactor: Redactor,
    wanted: ModelRequest,
}

/// The configuration of a server behind this listener.
fn config(args: &Args, host: Host, listener: &TcpListener) -> Result<Config, Problem> {
    let shell = args.shell.shell()?;
    let defaults = HostDefaults {
        wanted: host.wanted,
        notes_dir: host.dir.join("notes"),
        files: Files::new(args.workspace.as_ref(), args.write)?,
        shell: shell.clone(),
    };
    Ok(Config {
        dir: host.dir,
        redactor: host.redactor,
        models: Arc::new(Models::new(Duration::ZERO, user_catalog()?)),
        defaults: Some(defaults),
        tools: ToolConfig {
            callbacks: callback_url(args, listener)?,
            ..args.tools.config(Vec::new(), shell)?
        },
        work: Work::Service { capacity: args.capacity as usize },
        open_metrics: args.open_metrics,
    })
}

/// Where tools hand in answers that come later.
fn callback_url(args: &Args, listener: &TcpListener) -> Result<Option<Url>, Problem> {
    if args.tools.resources.is_none() {
        return Ok(None);
    }
    let address = listener.local_addr().map_err(|error| Problem::io("the address", &error))?;
    let base = match &args.callback_url {
        Some(url) => url.clone(),
        None => Url::parse(&format!("http://{address}"))
            .map_err(|error| Problem::new(ErrorKind::Bug, error.to_string()))?,
    };
    let joined = base.join("v1/tool-callbacks");
    joined.map(Some).map_err(|error| Problem::invalid(format!("--callback-url: {error}")))
}

/// Counts how often the program was told to end, and how often to read anew what is declared in files, if anything is.
fn listen_to_signals(
    declares: bool,
) -> Result<(watch::Receiver<u32>, watch::Receiver<u32>), Problem> {
    let mut interrupt = Interrupt::listen().map_err(|error| Problem::io("signals", &error))?;
    let (ends, ended) = watch::channel(0);
    let (reloads, reloaded) = watch::channel(0);
    tokio::spawn(async move {
        loop {
            let asked = match interrupt.next().await {
                Signal::HangUp if declares => &reloads,
                _ => &ends,
            };
            asked.send_modify(|count| *count += 1);
        }
    });
    Ok((ended, reloaded))
}

/// Reads anew what is declared whenever that is asked for, and says what came of it. Never ends by itself.
async fn reload(tools: &ToolProvider, app: &App, mut asked: watch::Receiver<u32>, output: &Output) {
    while asked.changed().await.is_ok() {
        match catalog::reload(tools, app).await {
            Ok(told) => output.dim(&told),
            Err(problem) => output.problem(&problem),
        }
    }
    std::future::pending().await
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Problem> {
    TcpListener::bind(address).await.map_err(|error| {
        let help = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "is there another `provost serve`? choose another port with --listen"
            }
            _ => "choose another address with --listen",
        };
        let kind = match error.kind() {
            io::ErrorKind::AddrInUse => ErrorKind::Conflict,
            io::ErrorKind::PermissionDenied => ErrorKind::Denied,
            _ => ErrorKind::Unavailable,
        };
        Problem::new(kind, format!("{address}: {error}")).help(help)
    })
}

/// Says where it listens and, the first time, the token.
async fn announce(
    args: &Args,
    app: &App,
    listener: &TcpListener,
    output: &Output,
) -> Result<(), Problem> {
    let address = listener.local_addr().map_err(|error| Problem::io("the address", &error))?;
    let url = format!("http://{address}");
    let token =
        app.first_token().await.map_err(|problem| Problem::new(problem.kind, problem.detail))?;
    let show = Show { output: *output, format: Format::Table };
    if args.json {
        return show.write(&line(&json!({ "url": url, "token": token }))?);
    }
    let mut text = format!("provost listens on {url}\n");
    if let Some(token) = token {
        text.push_str(&format!(
            "\nThis token may do everything. It is shown this once:\n\n  export PROVOST_SERVER={url}\n  \
             export PROVOST_TOKEN={token}\n\n"
        ));
    }
    show.write(&text)
}
