//! Connection to the API of a server, or to the API of this process over the local database.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use provost_api::{ApiError, Client, HttpOptions, HttpTransport, NewAgent, TransportError};
use provost_core::ErrorKind;
use provost_core::execution_policy::ExecutionPolicyPatch;
use provost_core::id::name::Namespace;
use provost_core::resource::AgentSpec;
use provost_host::agent::{HostDefaults, Workspaces};
use provost_host::model::{ModelRequest, Models};

use crate::boot::{self, Config, DEFAULT_AGENT, Runtime};
use crate::command::SHUTDOWN_TIMEOUT;
use crate::data;
use crate::error::CliError;
use crate::model_catalog::user_catalog;
use crate::render::output::Output;
use crate::render::printer::{Format, Printer};

/// Environment variable with the URL of the server.
const SERVER_VARIABLE: &str = "PROVOST_SERVER";
/// Environment variable with the token.
const TOKEN_VARIABLE: &str = "PROVOST_TOKEN";
/// Environment variable with the path of a file that contains the token.
const TOKEN_FILE_VARIABLE: &str = "PROVOST_TOKEN_FILE";
/// Environment variable with the namespace.
const NAMESPACE_VARIABLE: &str = "PROVOST_NAMESPACE";
/// Environment variable with the path of additional root certificates. Other programs use the same name.
const CERT_FILE_VARIABLE: &str = "SSL_CERT_FILE";
/// Maximum size of a token file in bytes.
const TOKEN_BYTES_MAX: usize = 4096;

/// Arguments that select a server.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// URL of the server [env: PROVOST_SERVER]; default: the local database
    #[arg(long, global = true, value_name = "URL")]
    server: Option<String>,
    /// API token [env: PROVOST_TOKEN, or the file PROVOST_TOKEN_FILE]
    #[arg(long, global = true, value_name = "TOKEN")]
    token: Option<String>,
    /// Namespace [env: PROVOST_NAMESPACE]; default: `default`
    #[arg(long, short, global = true, value_name = "NAME")]
    namespace: Option<Namespace>,
    /// Allow http to other machines; the token is then sent unencrypted
    #[arg(long, global = true, alias = "insecure")]
    allow_http: bool,
}

/// Arguments that select a server and an output format.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ConnectionArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Output format: table, json, jsonl, yaml, name
    #[arg(
        long,
        short,
        global = true,
        value_enum,
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true,
        value_name = "FORMAT"
    )]
    output: Format,
}

/// Handling of a missing local database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMissing {
    /// Creates the database.
    Create,
    /// Returns an error.
    Fail,
}

/// Open connection to the API.
pub(crate) struct Connection {
    /// Client of the API.
    pub(crate) client: Client,
    /// Prints results.
    pub(crate) printer: Printer,
    local: Option<Runtime>,
}

impl ConnectionArgs {
    /// Connects to the selected server. Without a server, opens the local database.
    pub(crate) async fn open(
        &self,
        data: Option<&Path>,
        output: &Output,
        missing: IfMissing,
    ) -> Result<Connection, CliError> {
        let printer = Printer { output: *output, format: self.output };
        if let Some(client) = self.server.connect()? {
            return Ok(Connection { client, printer, local: None });
        }
        let namespace = self.server.namespace()?;
        let local = open_local(data, missing).await?;
        let client = local.client(namespace);
        Ok(Connection { client, printer, local: Some(local) })
    }
}

/// Returns an environment variable. `None` if it is not set or blank.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

impl ServerArgs {
    /// Returns the namespace of the arguments or of the environment.
    pub(crate) fn namespace(&self) -> Result<Namespace, CliError> {
        match (&self.namespace, variable(NAMESPACE_VARIABLE)) {
            (Some(namespace), _) => Ok(namespace.clone()),
            (None, Some(name)) => name
                .parse()
                .map_err(|error| CliError::invalid(format!("{NAMESPACE_VARIABLE}: {error}"))),
            (None, None) => Ok(Namespace::default()),
        }
    }

    /// Returns a client of the server. `None` if no server is selected.
    pub(crate) fn connect(&self) -> Result<Option<Client>, CliError> {
        let Some(url) = self.server.clone().or_else(|| variable(SERVER_VARIABLE)) else {
            return Ok(None);
        };
        let namespace = self.namespace()?;
        let options = HttpOptions {
            insecure: self.allow_http,
            cert_file: variable(CERT_FILE_VARIABLE).map(PathBuf::from),
            ..HttpOptions::default()
        };
        let transport = HttpTransport::new(&url, &options).map_err(|error| {
            let hint = "use a URL such as --server http://127.0.0.1:7077; --allow-http allows http to other machines";
            CliError::new(error.kind, error.message).hint(hint)
        })?;
        let mut client = Client::new(transport, namespace);
        let token = match (&self.token, variable(TOKEN_VARIABLE), variable(TOKEN_FILE_VARIABLE)) {
            (Some(token), _, _) => Some(token.clone()),
            (None, Some(token), _) => Some(token),
            (None, None, Some(file)) => Some(read_token(Path::new(&file))?),
            (None, None, None) => None,
        };
        if let Some(token) = token {
            client = client.with_token(token.trim()).map_err(|_error| {
                CliError::invalid("the token contains invalid characters")
                    .hint("copy the token again; it starts with prv_")
            })?;
        }
        Ok(Some(client))
    }
}

/// Reads a token from a file. Returns an error if the file is too large to be a token.
fn read_token(path: &Path) -> Result<String, CliError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| CliError::io(format!("the token file {}", path.display()), &error))?;
    if text.len() > TOKEN_BYTES_MAX {
        return Err(CliError::invalid(format!("{} does not contain a token", path.display())));
    }
    Ok(text)
}

/// Builds a runtime over the local database.
async fn open_local(data: Option<&Path>, missing: IfMissing) -> Result<Runtime, CliError> {
    let dir = data::dir_from_env(data)?;
    let file = boot::database::path(&dir);
    if missing == IfMissing::Fail && !file.exists() {
        let message =
            format!("no server is selected, and there is no database at {}", file.display());
        return Err(CliError::new(ErrorKind::NotFound, message).hint(format!(
            "select a server with --server or {SERVER_VARIABLE}, or a database with --data-dir, or start with `provost task submit`"
        )));
    }
    let models = Arc::new(Models::new(Duration::ZERO, user_catalog()?));
    let defaults = HostDefaults {
        model: ModelRequest::default(),
        notes_dir: dir.join("notes"),
        workspaces: Workspaces::default(),
        shell: None,
        is_terminal: false,
    };
    boot::build(Config::local(&dir, models, defaults)).await
}

impl Connection {
    /// Returns true if the API runs in this process.
    pub(crate) fn is_local(&self) -> bool {
        self.local.is_some()
    }

    /// Returns the runtime of this process. `None` if a server is used.
    pub(crate) fn runtime(&self) -> Option<&Runtime> {
        self.local.as_ref()
    }

    /// Executes the runs of a session in this process. Does nothing if a server is used.
    pub(crate) async fn process_session(&mut self, session: &str) -> Result<(), CliError> {
        let Some(local) = &mut self.local else { return Ok(()) };
        local.local_runs().execute(self.client.namespace(), session);
        local.start().await
    }

    /// Closes the connection. Unfinished runs of this process are requeued.
    pub(crate) async fn close(self) {
        if let Some(local) = self.local {
            local.close(SHUTDOWN_TIMEOUT).await;
        }
    }

    /// Returns the flags that the next command needs to use the same namespace.
    pub(crate) fn flags(&self) -> String {
        match self.client.namespace().as_str() {
            "default" => String::new(),
            name => format!(" -n {name}"),
        }
    }
}

/// Creates the default agent of the namespace if it does not exist.
pub(crate) async fn ensure_agent(client: &Client) -> Result<(), CliError> {
    match client.agent(DEFAULT_AGENT).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        found => return found.map(drop).map_err(CliError::from),
    }
    let policy =
        ExecutionPolicyPatch { interactive: Some(true), ..ExecutionPolicyPatch::default() };
    let config = AgentSpec { policy, ..AgentSpec::default() };
    let agent = NewAgent { name: DEFAULT_AGENT.to_owned(), title: None, config };
    match client.create_agent(&agent).await {
        // Another process created the agent.
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
        created => created.map(drop).map_err(CliError::from),
    }
}

impl From<ApiError> for CliError {
    fn from(error: ApiError) -> Self {
        let hint = match &error {
            ApiError::Transport(TransportError { kind: ErrorKind::Unavailable, .. }) => {
                Some("`provost serve` starts a server; --server selects another server")
            }
            ApiError::Transport(_) => Some("try again, or check --server"),
            ApiError::Unreadable(_) => {
                Some("check that --server is a Provost server of this version")
            }
            ApiError::Problem(problem) => match (problem.kind, problem.code.as_str()) {
                (ErrorKind::Unauthenticated, _) => Some(
                    "set PROVOST_TOKEN or PROVOST_TOKEN_FILE; `provost serve` prints the admin token at its first start, \
                     and `provost token create` on the server's machine creates another token",
                ),
                (ErrorKind::Denied, _) => Some(
                    "use a token with the required scope; `provost token list` shows the scopes",
                ),
                (ErrorKind::NotFound, _) => Some(
                    "find the id with `provost task list`, `provost run list` or `provost approval list`, or select \
                     another --namespace",
                ),
                (ErrorKind::Conflict, _) => Some("`provost explain ID` shows the state"),
                (ErrorKind::RateLimited, _) => Some("try again later"),
                (ErrorKind::Bug, _) => Some("the log of the server has more details"),
                _ => None,
            },
        };
        let problem = Self::new(error.kind(), error.to_string());
        match hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}
