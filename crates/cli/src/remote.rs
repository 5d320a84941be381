//! How to reach runs: a server, or the database of this machine by the same calls.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_api::{
    AgentConfig, ApiError, Client, HttpOptions, HttpTransport, NewAgent, TransportError,
};
use provost_core::ErrorKind;
use provost_core::work::{Namespace, PolicyPatch};
use provost_engine::{DEFAULT_AGENT, Engine, EngineDeps, EngineOptions, Focus, Worker};
use provost_server::{App, AppOptions, LiveEvents, LocalTransport};

use crate::boot;
use crate::command::LEAVE_PATIENCE;
use crate::data::{self, engine_problem};
use crate::discover::Wanted;
use crate::output::Output;
use crate::problem::Problem;
use crate::recipe::{House, Kitchen};
use crate::show::{Format, Show};

/// The variable that names the server.
const SERVER_VARIABLE: &str = "PROVOST_SERVER";
/// The variable that holds the token.
const TOKEN_VARIABLE: &str = "PROVOST_TOKEN";
/// The variable that names a file with the token.
const TOKEN_FILE_VARIABLE: &str = "PROVOST_TOKEN_FILE";
/// The variable that names the namespace.
const NAMESPACE_VARIABLE: &str = "PROVOST_NAMESPACE";
/// The variable that names a file of further root certificates, as other tools know it.
const CERT_FILE_VARIABLE: &str = "SSL_CERT_FILE";
/// Bytes of a token file that are looked at.
const TOKEN_BYTES_MAX: usize = 4096;
/// Runs that this process works on at once when it works for one command.
const CAPACITY: usize = 4;

/// Where the runs are and how to show them.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct RemoteArgs {
    /// The server [env: PROVOST_SERVER]; without one, the database of this machine
    #[arg(long, global = true, value_name = "URL")]
    server: Option<String>,
    /// The token [env: PROVOST_TOKEN, or a file: PROVOST_TOKEN_FILE]
    #[arg(long, global = true, value_name = "TOKEN")]
    token: Option<String>,
    /// The namespace [env: PROVOST_NAMESPACE]; `default` if nothing is said
    #[arg(long, short, global = true, value_name = "NAME")]
    namespace: Option<Namespace>,
    /// Allow http to other machines, where everybody on the way can read the token
    #[arg(long, global = true)]
    insecure: bool,
    /// In which form: table, json, jsonl, yaml, name
    #[arg(
        long,
        short,
        global = true,
        value_enum,
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true,
        value_name = "FORM"
    )]
    output: Format,
}

/// What to do where there is no database yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Make one.
    Make,
    /// There is nothing to look at.
    Refuse,
}

/// A way to runs.
pub(crate) struct Reach {
    /// What speaks.
    pub(crate) client: Client,
    local: Option<Local>,
}

/// The engine of this process.
struct Local {
    engine: Engine,
    focus: Focus,
    worker: Option<Worker>,
}

impl RemoteArgs {
    /// How things are shown.
    pub(crate) fn show(&self, output: &Output) -> Show {
        Show { output: *output, format: self.output }
    }

    /// Opens the way to runs.
    pub(crate) fn open(&self, data: Option<&Path>, missing: Missing) -> Result<Reach, Problem> {
        let env = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let namespace = match (&self.namespace, env(NAMESPACE_VARIABLE)) {
            (Some(namespace), _) => namespace.clone(),
            (None, Some(name)) => name
                .parse()
                .map_err(|error| Problem::invalid(format!("{NAMESPACE_VARIABLE}: {error}")))?,
            (None, None) => Namespace::default(),
        };
        match self.server.clone().or_else(|| env(SERVER_VARIABLE)) {
            Some(url) => self.connect(&url, namespace, env),
            None => here(data, missing, namespace),
        }
    }

    fn connect(
        &self,
        url: &str,
        namespace: Namespace,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Reach, Problem> {
        let options = HttpOptions {
            insecure: self.insecure,
            cert_file: env(CERT_FILE_VARIABLE).map(PathBuf::from),
            ..HttpOptions::default()
        };
        let transport = HttpTransport::new(url, &options).map_err(|error| {
            let help = "write --server http://127.0.0.1:7077; --insecure allows http elsewhere";
            Problem::new(error.kind, error.message).help(help)
        })?;
        let mut client = Client::new(transport, namespace);
        let token = match (&self.token, env(TOKEN_VARIABLE), env(TOKEN_FILE_VARIABLE)) {
            (Some(token), _, _) => Some(token.clone()),
            (None, Some(token), _) => Some(token),
            (None, None, Some(file)) => Some(read_token(Path::new(&file))?),
            (None, None, None) => None,
        };
        if let Some(token) = token {
            client = client.token(token.trim()).map_err(|_error| {
                Problem::invalid("the token has characters that no token has")
                    .help("copy it once more; it begins with prv_")
            })?;
        }
        Ok(Reach { client, local: None })
    }
}

fn read_token(path: &Path) -> Result<String, Problem> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Problem::io(format!("the token file {}", path.display()), &error))?;
    if text.len() > TOKEN_BYTES_MAX {
        return Err(Problem::invalid(format!("{} holds no token", path.display())));
    }
    Ok(text)
}

/// The database of this machine, by the same calls as a server.
fn here(data: Option<&Path>, missing: Missing, namespace: Namespace) -> Result<Reach, Problem> {
    let dir = data::real_dir(data)?;
    let file = data::database(&dir);
    if missing == Missing::Refuse && !file.exists() {
        let what = format!("there is no server named and no database at {}", file.display());
        return Err(Problem::new(ErrorKind::NotFound, what).help(format!(
            "name a server with --server or {SERVER_VARIABLE}, a database with --data, or begin with `provost task submit`"
        )));
    }
    let focus = Focus::default();
    let options = EngineOptions {
        focus: Some(focus.clone()),
        capacity: CAPACITY,
        ..EngineOptions::default()
    };
    let (wanted, notes_dir) = (Wanted::default(), dir.join("notes"));
    let kitchen =
        Arc::new(Kitchen::of_house(House { wanted, notes_dir, files: None, shell: None }));
    let live = LiveEvents::new();
    let deps = boot::deps(data::open(&dir)?, &kitchen);
    let engine = Engine::new(EngineDeps { live: Some(live.sink()), ..deps }, options);
    let transport = LocalTransport::new(App::new(engine.clone(), live, AppOptions::default()));
    let client = Client::new(transport, namespace);
    Ok(Reach { client, local: Some(Local { engine, focus, worker: None }) })
}

impl Reach {
    /// True if there is no server.
    pub(crate) fn is_local(&self) -> bool {
        self.local.is_some()
    }

    /// The engine of this process, unless a server has it.
    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.local.as_ref().map(|local| &local.engine)
    }

    /// Works on a session in this process, unless a server does.
    pub(crate) async fn work_on(&mut self, session: &str) -> Result<(), Problem> {
        let Some(local) = &mut self.local else { return Ok(()) };
        local.focus.add(self.client.namespace(), session);
        if local.worker.is_none() {
            let started = local.engine.start().await.map_err(|error| engine_problem(&error))?;
            local.worker = Some(started);
        }
        Ok(())
    }

    /// Ends what works here. What is not finished is given back.
    pub(crate) async fn close(self) {
        let Some(local) = self.local else { return };
        if let Some(worker) = local.worker {
            worker.stop(LEAVE_PATIENCE).await;
        }
        local.engine.store().close().await;
    }

    /// How to name the server in a command that a person types next.
    pub(crate) fn flags(&self) -> String {
        match self.client.namespace().as_str() {
            "default" => String::new(),
            name => format!(" -n {name}"),
        }
    }
}

/// Makes the agent of those who name none, if there is none.
pub(crate) async fn ensure_agent(client: &Client) -> Result<(), Problem> {
    match client.agent(DEFAULT_AGENT).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        found => return found.map(drop).map_err(Problem::from),
    }
    let policy = PolicyPatch { interactive: Some(true), ..PolicyPatch::default() };
    let config = AgentConfig { policy: Some(policy), ..AgentConfig::default() };
    let agent = NewAgent { name: DEFAULT_AGENT.to_owned(), title: None, config };
    match client.create_agent(&agent).await {
        // Another process was faster.
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
        made => made.map(drop).map_err(Problem::from),
    }
}

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        let help = match &error {
            ApiError::Transport(TransportError { kind: ErrorKind::Unavailable, .. }) => {
                Some("is it running? `provost serve` starts it, --server names another one")
            }
            ApiError::Transport(_) => Some("try again, or check --server"),
            ApiError::Unreadable(_) => {
                Some("is it a Provost server of this version? check --server")
            }
            ApiError::Problem(problem) => match (problem.kind, problem.code.as_str()) {
                (ErrorKind::Unauthenticated, _) => Some(
                    "set PROVOST_TOKEN or PROVOST_TOKEN_FILE; `provost serve` shows the first token when it first \
                     starts, and `provost token create` on its machine makes another",
                ),
                (ErrorKind::Denied, _) => Some(
                    "use a token that may do this; `provost token list` shows what each may do",
                ),
                (ErrorKind::NotFound, _) => Some(
                    "look for it with `provost task list`, `provost runs list` or `provost approvals`; is it in \
                     another --namespace?",
                ),
                (ErrorKind::Conflict, _) => Some("`provost explain ID` says how it stands"),
                (ErrorKind::RateLimited, _) => Some("wait a little and try again"),
                (ErrorKind::Bug, _) => Some("the log of the server says more"),
                _ => None,
            },
        };
        let problem = Self::new(error.kind(), error.to_string());
        match help {
            Some(help) => problem.help(help),
            None => problem,
        }
    }
}
