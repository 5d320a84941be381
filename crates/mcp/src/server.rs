//! What a server is: how it is reached, and what it may take.
//!
//! A definition is a value. Two that are equal share one connection of a pool; two that differ in anything do not.

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
use crate::transport::launcher::{By, Starter};
use crate::{Error, OAuth};

/// Headers that belong to the protocol itself.
const RESERVED_HEADERS: &[&str] =
    &["accept", "content-type", "mcp-session-id", "mcp-protocol-version", "last-event-id", "host"];

/// Which generation of the protocol is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Era {
    /// Asks the server with `server/discover`, and greets it with `initialize` if it does not know that.
    #[default]
    Auto,
    /// Only with `initialize`: the revisions up to 2025-11-25.
    Initialize,
    /// Only with `server/discover`: 2026-07-28 and later.
    Discover,
}

/// What is answered when a server asks the user something in the middle of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Elicitation {
    /// The server is told that nobody can be asked.
    #[default]
    Decline,
    /// The defaults that the question itself offers are sent back; a question without them is declined.
    Defaults,
}

/// An MCP server: a program that speaks over its pipes, or an address that speaks HTTP.
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
    pub(crate) reach: Reach,
    pub(crate) connect_timeout: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) trust_annotations: bool,
    pub(crate) era: Era,
    pub(crate) elicitation: Elicitation,
    /// The tools that are offered, by their names at the server; nothing named means all.
    pub(crate) only: Vec<String>,
}

/// How a server is reached.
#[derive(Clone, PartialEq)]
pub(crate) enum Reach {
    Stdio(Stdio),
    Http(Http),
}

/// A program that is started and spoken to over its pipes.
#[derive(Clone, PartialEq)]
pub(crate) struct Stdio {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, Secret<String>)>,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) dir: Option<PathBuf>,
    /// Who starts it, if not this process.
    pub(crate) by: Option<By>,
}

/// An address that is spoken to over streamable HTTP.
#[derive(Clone, PartialEq)]
pub(crate) struct Http {
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, Secret<String>)>,
    pub(crate) oauth: Option<OAuth>,
    pub(crate) policy: NetPolicy,
}

impl McpServer {
    /// A program that is started when it is first needed. It gets an environment with nothing but `PATH`, `HOME`, `LANG` and
    /// what [`env`](Self::env) adds.
    pub fn stdio(name: impl Into<String>, command: impl Into<String>) -> Self {
        Self::new(
            name.into(),
            Reach::Stdio(Stdio {
                command: command.into(),
                args: Vec::new(),
                env: Vec::new(),
                settings: Vec::new(),
                dir: None,
                by: None,
            }),
        )
    }

    /// An address that speaks streamable HTTP.
    pub fn http(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self::new(
            name.into(),
            Reach::Http(Http {
                url: url.into(),
                headers: Vec::new(),
                oauth: None,
                policy: NetPolicy::open(),
            }),
        )
    }

    fn new(name: String, reach: Reach) -> Self {
        Self {
            name,
            reach,
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
            call_timeout: CALL_TIMEOUT_DEFAULT,
            idle_timeout: Some(IDLE_TIMEOUT_DEFAULT),
            trust_annotations: false,
            era: Era::Auto,
            elicitation: Elicitation::Decline,
            only: Vec::new(),
        }
    }

    /// Offers these of its tools and no others; none named means all of them.
    #[must_use]
    pub fn only<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.only = tools.into_iter().map(Into::into).collect();
        self
    }

    /// Adds an argument of the program. Means nothing for HTTP.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        if let Reach::Stdio(stdio) = &mut self.reach {
            stdio.args.push(arg.into());
        }
        self
    }

    /// Adds arguments of the program. Means nothing for HTTP.
    #[must_use]
    pub fn args<A: Into<String>>(self, args: impl IntoIterator<Item = A>) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// Adds a variable to the program's environment. It is taken for a secret: a pool that knows a redactor keeps its value out
    /// of everything that is said. What is none is a [`setting`](Self::setting). Means nothing for HTTP.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<Secret<String>>) -> Self {
        if let Reach::Stdio(stdio) = &mut self.reach {
            stdio.env.push((name.into(), value.into()));
        }
        self
    }

    /// Adds a variable that is no secret, such as `NODE_ENV`. Means nothing for HTTP.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Reach::Stdio(stdio) = &mut self.reach {
            stdio.settings.push((name.into(), value.into()));
        }
        self
    }

    /// Sets the directory the program starts in. Means nothing for HTTP.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        if let Reach::Stdio(stdio) = &mut self.reach {
            stdio.dir = Some(dir.into());
        }
        self
    }

    /// Has the program started by somebody else, such as a sandbox. It then gets nothing of our environment, and the directory
    /// that it starts in is not ours to say. Means nothing for HTTP.
    #[must_use]
    pub fn started_by(mut self, starter: Arc<dyn Starter>) -> Self {
        if let Reach::Stdio(stdio) = &mut self.reach {
            stdio.by = Some(By(starter));
        }
        self
    }

    /// Adds a header to every request. Means nothing for a program.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret<String>>) -> Self {
        if let Reach::Http(http) = &mut self.reach {
            http.headers.push((name.into(), value.into()));
        }
        self
    }

    /// Sets what the address may lead to. Whoever writes a program knows where its servers are, so this machine and private
    /// networks are open until this is set; addresses that others declare need something stricter. Means nothing for a program.
    #[must_use]
    pub fn network(mut self, policy: NetPolicy) -> Self {
        if let Reach::Http(http) = &mut self.reach {
            http.policy = policy;
        }
        self
    }

    /// Sets how we prove ourselves to a server that wants OAuth. Means nothing for a program.
    #[must_use]
    pub fn oauth(mut self, oauth: OAuth) -> Self {
        if let Reach::Http(http) = &mut self.reach {
            http.oauth = Some(oauth);
        }
        self
    }

    /// Sets how long the server may take until it can be used, and how long it may take to list its tools.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long one call may take.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }

    /// Sets after how long without a call the connection is closed; `None` keeps it open.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Believes what the server says about its own tools: which only read, and which may be repeated. Without this each of
    /// them is taken for one that may do anything.
    #[must_use]
    pub fn trust_annotations(mut self) -> Self {
        self.trust_annotations = true;
        self
    }

    /// Sets which generation of the protocol is spoken.
    #[must_use]
    pub fn era(mut self, era: Era) -> Self {
        self.era = era;
        self
    }

    /// Sets what is answered when the server asks the user something.
    #[must_use]
    pub fn elicitation(mut self, elicitation: Elicitation) -> Self {
        self.elicitation = elicitation;
        self
    }

    /// True if requests to it have headers; a program takes none.
    pub fn takes_headers(&self) -> bool {
        matches!(self.reach, Reach::Http(_))
    }

    /// The name that its tools begin with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Refuses what cannot work before anything is started.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if self.name.is_empty()
            || self.name.len() > SERVER_NAME_CHARS_MAX
            || !self.name.chars().all(legal)
        {
            return Err(self.invalid(format!(
                "its name must be 1 to {SERVER_NAME_CHARS_MAX} letters, digits, `_` or `-`"
            )));
        }
        for (what, timeout) in [("connect", self.connect_timeout), ("call", self.call_timeout)] {
            if timeout.is_zero() || timeout > TIMEOUT_MAX {
                return Err(self.invalid(format!(
                    "its {what} timeout must be more than nothing and at most {} s",
                    TIMEOUT_MAX.as_secs()
                )));
            }
        }
        match &self.reach {
            Reach::Stdio(stdio) => stdio.check().map_err(|problem| self.invalid(problem)),
            Reach::Http(http) => http.check().map_err(|problem| self.invalid(problem)),
        }
    }

    fn invalid(&self, problem: impl Into<String>) -> Error {
        let server = first_chars(&self.name, 2 * SERVER_NAME_CHARS_MAX).to_owned();
        Error::Definition { server, problem: problem.into() }
    }
}

impl Stdio {
    fn check(&self) -> Result<(), String> {
        if self.command.is_empty() {
            return Err("it has no command".to_owned());
        }
        let variables = self.env.len() + self.settings.len();
        if self.args.len() > ARGUMENTS_MAX || variables > ARGUMENTS_MAX {
            return Err(format!("it has more than {ARGUMENTS_MAX} arguments or variables"));
        }
        let values = self.env.iter().map(|(_, value)| value.expose());
        let values = values.chain(self.settings.iter().map(|(_, value)| value));
        for text in self.args.iter().chain([&self.command]).chain(values) {
            if text.contains('\0') || text.len() > ARGUMENT_BYTES_MAX {
                return Err("an argument or variable is too long or holds a zero byte".to_owned());
            }
        }
        let names = self.env.iter().map(|(name, _)| name);
        let mut names = names.chain(self.settings.iter().map(|(name, _)| name));
        match names.find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            Some(name) => Err(format!("`{name}` is not the name of a variable")),
            None => Ok(()),
        }
    }
}

impl Http {
    fn check(&self) -> Result<(), String> {
        let url = Url::parse(&self.url).map_err(|error| format!("its URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err("its URL must begin with http:// or https:// and name a host".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("its URL holds a password: give it as a header".to_owned());
        }
        self.policy.check_url(&url).map_err(|error| error.to_string())?;
        if self.headers.len() > ARGUMENTS_MAX {
            return Err(format!("it has more than {ARGUMENTS_MAX} headers"));
        }
        let headers = self.header_map()?;
        if self.oauth.is_some()
            && headers.iter().any(|(name, _)| name == http::header::AUTHORIZATION)
        {
            return Err("it has OAuth and an `authorization` header: choose one".to_owned());
        }
        Ok(())
    }

    /// The headers, marked so that nothing prints their values.
    pub(crate) fn header_map(&self) -> Result<Vec<(http::HeaderName, http::HeaderValue)>, String> {
        let mut headers = Vec::with_capacity(self.headers.len());
        for (name, value) in &self.headers {
            let parsed = http::HeaderName::try_from(name.as_str())
                .map_err(|error| format!("header `{name}`: {error}"))?;
            if RESERVED_HEADERS.contains(&parsed.as_str()) || parsed.as_str().starts_with("mcp-") {
                return Err(format!("header `{name}` belongs to the protocol"));
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
        match &self.reach {
            Reach::Stdio(stdio) => out.field("command", &stdio.command).field("args", &stdio.args),
            Reach::Http(http) => out.field("url", &http.url),
        };
        out.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
