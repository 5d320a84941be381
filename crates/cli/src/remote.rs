//! How to reach runs: a server, or the database of this machine by the same calls.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use provost_api::{
    AgentConfig, ApiError, Client, HttpOptions, HttpTransport, NewAgent, TransportError,
};
use provost_core::ErrorKind;
use provost_core::execution_policy::ExecutionPolicyPatch;
use provost_core::id::name::Namespace;
use provost_host::agent::HostDefaults;
use provost_host::model::{ModelRequest, Models};

use crate::boot::{self, Config, DEFAULT_AGENT, Runtime};
use crate::command::LEAVE_PATIENCE;
use crate::data;
use crate::model_catalog::user_catalog;
use crate::problem::Problem;
use crate::render::output::Output;
use crate::render::show::{Format, Show};

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

/// Where the runs are.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
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
}

/// Where the runs are and how to show them.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ConnectionArgs {
    #[command(flatten)]
    server: ServerArgs,
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
pub(crate) enum IfMissing {
    /// Create one.
    Create,
    /// Fail: there is nothing to look at.
    Fail,
}

/// An open connection to runs.
pub(crate) struct Connection {
    /// Calls the API.
    pub(crate) client: Client,
    /// Shows results.
    pub(crate) show: Show,
    local: Option<Runtime>,
}

impl ConnectionArgs {
    /// Opens the way to runs.
    pub(crate) async fn open(
        &self,
        data: Option<&Path>,
        output: &Output,
        missing: IfMissing,
    ) -> Result<Connection, Problem> {
        let show = Show { output: *output, format: self.output };
        if let Some(client) = self.server.connect()? {
            return Ok(Connection { client, show, local: None });
        }
        let namespace = self.server.namespace()?;
        let local = open_local(data, missing).await?;
        let client = local.client(namespace);
        Ok(Connection { client, show, local: Some(local) })
    }
}

/// A variable of the environment, unless it is blank.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

impl ServerArgs {
    /// The namespace.
    pub(crate) fn namespace(&self) -> Result<Namespace, Problem> {
        match (&self.namespace, variable(NAMESPACE_VARIABLE)) {
            (Some(namespace), _) => Ok(namespace.clone()),
            (None, Some(name)) => name
                .parse()
                .map_err(|error| Problem::invalid(format!("{NAMESPACE_VARIABLE}: {error}"))),
            (None, None) => Ok(Namespace::default()),
        }
    }

    /// A client of the server, if one is named.
    pub(crate) fn connect(&self) -> Result<Option<Client>, Problem> {
        let Some(url) = self.server.clone().or_else(|| variable(SERVER_VARIABLE)) else {
            return Ok(None);
        };
        let namespace = self.namespace()?;
        let options = HttpOptions {
            insecure: self.insecure,
            cert_file: variable(CERT_FILE_VARIABLE).map(PathBuf::from),
            ..HttpOptions::default()
        };
        let transport = HttpTransport::new(&url, &options).map_err(|error| {
            let help = "write --server http://127.0.0.1:7077; --insecure allows http elsewhere";
            Problem::new(error.kind, error.message).help(help)
        })?;
        let mut client = Client::new(transport, namespace);
        let token = match (&self.token, variable(TOKEN_VARIABLE), variable(TOKEN_FILE_VARIABLE)) {
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
        Ok(Some(client))
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

/// A runtime on the database of this machine.
async fn open_local(data: Option<&Path>, missing: IfMissing) -> Result<Runtime, Problem> {
    let dir = data::real_dir(data)?;
    let file = boot::database::path(&dir);
    if missing == IfMissing::Fail && !file.exists() {
        let what = format!("there is no server named and no database at {}", file.display());
        return Err(Problem::new(ErrorKind::NotFound, what).help(format!(
            "name a server with --server or {SERVER_VARIABLE}, a database with --data, or begin with `provost task submit`"
        )));
    }
    let models = Arc::new(Models::new(Duration::ZERO, user_catalog()?));
    let defaults = HostDefaults {
        wanted: ModelRequest::default(),
        notes_dir: dir.join("notes"),
        files: None,
        shell: None,
    };
    let config = Config { defaults: Some(defaults), ..Config::local(&dir, models) };
    boot::build(config).await
}

impl Connection {
    /// True if there is no server.
    pub(crate) fn is_local(&self) -> bool {
        self.local.is_some()
    }

    /// The runtime of this process, unless a server has it.
    pub(crate) fn runtime(&self) -> Option<&Runtime> {
        self.local.as_ref()
    }

    /// Works on a session in this process, unless a server does.
    pub(crate) async fn work_on(&mut self, session: &str) -> Result<(), Problem> {
        let Some(local) = &mut self.local else { return Ok(()) };
        local.local_runs().execute(self.client.namespace(), session);
        local.start().await
    }

    /// Ends what works here. What is not finished is given back.
    pub(crate) async fn close(self) {
        if let Some(local) = self.local {
            local.close(LEAVE_PATIENCE).await;
        }
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
    let policy =
        ExecutionPolicyPatch { interactive: Some(true), ..ExecutionPolicyPatch::default() };
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
