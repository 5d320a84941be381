//! Definition of an MCP server: its transport and its limits.
//!
//! Equal definitions share one connection of a pool. Definitions that differ in any field do not.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use provost_core::Secret;
use provost_core::text::first_chars;
use provost_net::{NetPolicy, Url};

use crate::limits::{
    ARGUMENT_BYTES_MAX, ARGUMENTS_MAX, CALL_TIMEOUT_DEFAULT, CONNECT_TIMEOUT_DEFAULT,
    IDLE_TIMEOUT_DEFAULT, SERVER_NAME_CHARS_MAX, TIMEOUT_MAX,
};
use crate::transport::launcher::{LauncherRef, ProcessLauncher};
use crate::{Error, OAuth};

/// Headers that belong to the protocol.
const RESERVED_HEADERS: &[&str] =
    &["accept", "content-type", "mcp-session-id", "mcp-protocol-version", "last-event-id", "host"];

/// Which handshake opens a connection. It selects the protocol generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Handshake {
    /// Tries `server/discover` first, and then `initialize` if the server does not support it.
    #[default]
    Auto,
    /// Only `initialize`: protocol revisions up to 2025-11-25.
    Initialize,
    /// Only `server/discover`: protocol revision 2026-07-28 and later.
    Discover,
}

/// How requests for user input during a call are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ElicitationMode {
    /// Declines every request.
    #[default]
    Decline,
    /// Responds with the defaults of the form. A form with required fields without defaults is declined.
    Defaults,
}

/// Definition of an MCP server: a program with pipes, or a URL with streamable HTTP.
///
/// ```
/// use provost_mcp::McpServer;
///
/// let files = McpServer::stdio("files", "mcp-server-filesystem").arg("/srv/data");
/// let search = McpServer::http("search", "https://example.com/mcp").header("authorization", "Bearer 123");
/// assert!(!format!("{search:?}").contains("123"));
/// # let _ = files;
/// ```
#[derive(Clone, PartialEq)]
pub struct McpServer {
    pub(crate) name: String,
    pub(crate) transport: TransportConfig,
    pub(crate) connect_timeout: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) trust_annotations: bool,
    pub(crate) handshake: Handshake,
    pub(crate) elicitation: ElicitationMode,
    /// Tools that are offered, by their names at the server. Empty means all.
    pub(crate) allowed_tools: Vec<String>,
}

/// Transport of a server.
#[derive(Clone, PartialEq)]
pub(crate) enum TransportConfig {
    Stdio(StdioConfig),
    Http(HttpConfig),
}

/// A program that is started and connected by pipes.
#[derive(Clone, PartialEq)]
pub(crate) struct StdioConfig {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, Secret<String>)>,
    pub(crate) public_env: Vec<(String, String)>,
    pub(crate) dir: Option<PathBuf>,
    /// Launcher of the program. `None` if this process starts it.
    pub(crate) launcher: Option<LauncherRef>,
}

/// A URL with streamable HTTP.
#[derive(Clone, PartialEq)]
pub(crate) struct HttpConfig {
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, Secret<String>)>,
    pub(crate) oauth: Option<OAuth>,
    pub(crate) policy: NetPolicy,
}

impl McpServer {
    /// Defines a program that is started when first needed. Its environment contains only `PATH`, `HOME`, `LANG` and
    /// the variables that [`env`](Self::env) and [`public_env`](Self::public_env) add.
    pub fn stdio(name: impl Into<String>, command: impl Into<String>) -> Self {
        Self::new(
            name.into(),
            TransportConfig::Stdio(StdioConfig {
                command: command.into(),
                args: Vec::new(),
                env: Vec::new(),
                public_env: Vec::new(),
                dir: None,
                launcher: None,
            }),
        )
    }

    /// Defines a server with streamable HTTP.
    pub fn http(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self::new(
            name.into(),
            TransportConfig::Http(HttpConfig {
                url: url.into(),
                headers: Vec::new(),
                oauth: None,
                policy: NetPolicy::open(),
            }),
        )
    }

    fn new(name: String, transport: TransportConfig) -> Self {
        Self {
            name,
            transport,
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
            call_timeout: CALL_TIMEOUT_DEFAULT,
            idle_timeout: Some(IDLE_TIMEOUT_DEFAULT),
            trust_annotations: false,
            handshake: Handshake::Auto,
            elicitation: ElicitationMode::Decline,
            allowed_tools: Vec::new(),
        }
    }

    /// Offers only these tools. An empty list means all tools.
    #[must_use]
    pub fn allowed_tools<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.allowed_tools = tools.into_iter().map(Into::into).collect();
        self
    }

    /// Adds an argument of the program. No effect for HTTP.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        if let TransportConfig::Stdio(stdio) = &mut self.transport {
            stdio.args.push(arg.into());
        }
        self
    }

    /// Adds arguments of the program. No effect for HTTP.
    #[must_use]
    pub fn args<A: Into<String>>(self, args: impl IntoIterator<Item = A>) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// Adds a secret environment variable of the program. A pool with a redactor removes its value from all texts. Use
    /// [`public_env`](Self::public_env) for variables that are not secret. No effect for HTTP.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<Secret<String>>) -> Self {
        if let TransportConfig::Stdio(stdio) = &mut self.transport {
            stdio.env.push((name.into(), value.into()));
        }
        self
    }

    /// Adds an environment variable that is not secret, such as `NODE_ENV`. No effect for HTTP.
    #[must_use]
    pub fn public_env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let TransportConfig::Stdio(stdio) = &mut self.transport {
            stdio.public_env.push((name.into(), value.into()));
        }
        self
    }

    /// Sets the working directory of the program. No effect for HTTP.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        if let TransportConfig::Stdio(stdio) = &mut self.transport {
            stdio.dir = Some(dir.into());
        }
        self
    }

    /// Sets the launcher that starts the program, such as a sandbox. The program then inherits no environment
    /// variables, and the launcher chooses its working directory. No effect for HTTP.
    #[must_use]
    pub fn launcher(mut self, launcher: Arc<dyn ProcessLauncher>) -> Self {
        if let TransportConfig::Stdio(stdio) = &mut self.transport {
            stdio.launcher = Some(LauncherRef(launcher));
        }
        self
    }

    /// Adds a header to every request. No effect for a program.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret<String>>) -> Self {
        if let TransportConfig::Http(http) = &mut self.transport {
            http.headers.push((name.into(), value.into()));
        }
        self
    }

    /// Sets the network policy. By default all addresses are allowed, including this machine and private networks. Set
    /// a stricter policy for URLs from untrusted definitions. No effect for a program.
    #[must_use]
    pub fn net_policy(mut self, policy: NetPolicy) -> Self {
        if let TransportConfig::Http(http) = &mut self.transport {
            http.policy = policy;
        }
        self
    }

    /// Sets the OAuth configuration. No effect for a program.
    #[must_use]
    pub fn oauth(mut self, oauth: OAuth) -> Self {
        if let TransportConfig::Http(http) = &mut self.transport {
            http.oauth = Some(oauth);
        }
        self
    }

    /// Sets the timeout for connecting to the server and for listing its tools.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the timeout of one call.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }

    /// Sets the time without a call after which the connection is closed. `None` keeps it open.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Trusts the server's annotations about its tools: which are read-only, and which may be repeated. By default
    /// every tool is treated as opaque.
    #[must_use]
    pub fn trust_annotations(mut self) -> Self {
        self.trust_annotations = true;
        self
    }

    /// Sets the handshake.
    #[must_use]
    pub fn handshake(mut self, handshake: Handshake) -> Self {
        self.handshake = handshake;
        self
    }

    /// Sets the response to requests for user input.
    #[must_use]
    pub fn elicitation(mut self, elicitation: ElicitationMode) -> Self {
        self.elicitation = elicitation;
        self
    }

    /// Returns true if the transport is HTTP.
    pub fn is_http(&self) -> bool {
        matches!(self.transport, TransportConfig::Http(_))
    }

    /// Returns the name of the server, the prefix of its tool names.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Validates the definition. Returns the first error.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if self.name.is_empty()
            || self.name.len() > SERVER_NAME_CHARS_MAX
            || !self.name.chars().all(is_valid)
        {
            return Err(self.invalid_definition(format!(
                "its name must be 1 to {SERVER_NAME_CHARS_MAX} letters, digits, `_` or `-`"
            )));
        }
        for (what, timeout) in [("connect", self.connect_timeout), ("call", self.call_timeout)] {
            if timeout.is_zero() || timeout > TIMEOUT_MAX {
                return Err(self.invalid_definition(format!(
                    "its {what} timeout must be greater than zero and at most {} s",
                    TIMEOUT_MAX.as_secs()
                )));
            }
        }
        match &self.transport {
            TransportConfig::Stdio(stdio) => {
                stdio.check().map_err(|problem| self.invalid_definition(problem))
            }
            TransportConfig::Http(http) => {
                http.check().map_err(|problem| self.invalid_definition(problem))
            }
        }
    }

    /// Creates the error of an invalid definition.
    fn invalid_definition(&self, problem: impl Into<String>) -> Error {
        let server = first_chars(&self.name, 2 * SERVER_NAME_CHARS_MAX).to_owned();
        Error::Definition { server, problem: problem.into() }
    }
}

impl StdioConfig {
    fn check(&self) -> Result<(), String> {
        if self.command.is_empty() {
            return Err("the command is empty".to_owned());
        }
        let variables = self.env.len() + self.public_env.len();
        if self.args.len() > ARGUMENTS_MAX || variables > ARGUMENTS_MAX {
            return Err(format!("it has more than {ARGUMENTS_MAX} arguments or variables"));
        }
        let values = self.env.iter().map(|(_, value)| value.expose());
        let values = values.chain(self.public_env.iter().map(|(_, value)| value));
        for text in self.args.iter().chain([&self.command]).chain(values) {
            if text.contains('\0') || text.len() > ARGUMENT_BYTES_MAX {
                return Err(
                    "an argument or variable is too long or contains a zero byte".to_owned()
                );
            }
        }
        let names = self.env.iter().map(|(name, _)| name);
        let mut names = names.chain(self.public_env.iter().map(|(name, _)| name));
        match names.find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            Some(name) => Err(format!("`{name}` is not a valid variable name")),
            None => Ok(()),
        }
    }
}

impl HttpConfig {
    fn check(&self) -> Result<(), String> {
        let url = Url::parse(&self.url).map_err(|error| format!("its URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err("its URL must begin with http:// or https:// and name a host".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("its URL contains a password: set a header instead".to_owned());
        }
        self.policy.check_url(&url).map_err(|error| error.to_string())?;
        if self.headers.len() > ARGUMENTS_MAX {
            return Err(format!("it has more than {ARGUMENTS_MAX} headers"));
        }
        let headers = self.header_map()?;
        if self.oauth.is_some()
            && headers.iter().any(|(name, _)| name == http::header::AUTHORIZATION)
        {
            return Err("it has both OAuth and an `authorization` header: remove one".to_owned());
        }
        Ok(())
    }

    /// Returns the headers. Their values are marked as sensitive, so that debug output hides them. Returns a message
    /// for an invalid or reserved header.
    pub(crate) fn header_map(&self) -> Result<Vec<(http::HeaderName, http::HeaderValue)>, String> {
        let mut headers = Vec::with_capacity(self.headers.len());
        for (name, value) in &self.headers {
            let parsed = http::HeaderName::try_from(name.as_str())
                .map_err(|error| format!("header `{name}`: {error}"))?;
            if RESERVED_HEADERS.contains(&parsed.as_str()) || parsed.as_str().starts_with("mcp-") {
                return Err(format!("header `{name}` is reserved by the protocol"));
            }
            let mut value = http::HeaderValue::try_from(value.expose().as_str())
                .map_err(|error| format!("header `{name}`: {error}"))?;
            value.set_sensitive(true);
            headers.push((parsed, value));
        }
        Ok(headers)
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("McpServer");
        out.field("name", &self.name);
        match &self.transport {
            TransportConfig::Stdio(stdio) => {
                out.field("command", &stdio.command).field("args", &stdio.args)
            }
            TransportConfig::Http(http) => out.field("url", &http.url),
        };
        out.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
