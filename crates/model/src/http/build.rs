//! Building an [`HttpModel`]: everything that can be wrong is said here, before any request.

use std::fmt;
use std::path::PathBuf;

use provost_core::{Env, ErrorKind, Secret};
use reqwest::Url;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};

use super::plain::Plain;
use super::{Endpoint, HttpModel, Timeouts, Transport, client};
use crate::wire::Wire;
use crate::wire::anthropic::{AnthropicMessages, Thinking};
use crate::wire::bedrock::{AwsCredentials, BedrockConverse};
use crate::wire::openai_chat::OpenAiChat;
use crate::{ModelInfo, RetryPolicy};

/// Why a model cannot be built.
#[derive(thiserror::Error)]
pub enum BuildError {
    /// No key was given and none was found.
    #[error("{provider} needs an API key: set {variable} or give one to the builder")]
    MissingKey {
        /// Who wants it.
        provider: String,
        /// The variable that usually holds it.
        variable: String,
    },
    /// The key cannot be sent.
    #[error(
        "the API key holds characters that no header may hold: check it for line breaks and spaces"
    )]
    Key,
    /// The name of the model is empty.
    #[error("the model has no name: give one such as `gpt-5.1`")]
    Model,
    /// The base URL is not one.
    #[error("`{url}` is not a base URL ({reason}): use one such as https://api.example.com/v1")]
    BaseUrl {
        /// What was given, without user name, password and query.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no provider of this name.
    #[error("there is no provider `{name}`: use one of {known}, or add it to a file of providers")]
    Provider {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// A header of the caller's own is not one.
    #[error("`{0}` is not a header that can be sent")]
    Header(String),
    /// The file of root certificates cannot be read.
    #[error("the certificates in {path} cannot be read ({source}): correct or unset SSL_CERT_FILE")]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The TLS library refused its settings.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[source] rustls::Error),
    /// The HTTP client refused its settings.
    #[error("the HTTP client cannot be built: {0}")]
    Client(#[source] reqwest::Error),
}

/// The same sentence as of `Display`: a `main` that returns the error prints this one, and whoever reads it needs to know what
/// to do.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl BuildError {
    /// The shared kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::MissingKey { .. } | Self::Key => ErrorKind::Unauthenticated,
            Self::Tls(_) | Self::Client(_) => ErrorKind::Unavailable,
            _ => ErrorKind::Invalid,
        }
    }
}

/// Collects what a model needs.
#[must_use]
pub struct HttpModelBuilder<W> {
    wire: W,
    info: ModelInfo,
    base_url: String,
    key: Option<Secret<String>>,
    key_variable: Option<String>,
    headers: Vec<(String, Secret<String>)>,
    client: Option<reqwest::Client>,
    timeouts: Timeouts,
    retry: RetryPolicy,
    env: Env,
}

impl<W: Wire> HttpModelBuilder<W> {
    pub(super) fn new(provider: String, model: String, wire: W) -> Self {
        Self {
            wire,
            info: ModelInfo::unknown(provider, model),
            base_url: String::new(),
            key: None,
            key_variable: None,
            headers: Vec::new(),
            client: None,
            timeouts: Timeouts::default(),
            retry: RetryPolicy::default(),
            env: Env::system(),
        }
    }

    /// The address of the API, such as `https://api.openai.com/v1`.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = url.into();
        self
    }

    /// The key.
    pub fn api_key(mut self, key: impl Into<Secret<String>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Says that building without a key is a mistake, and which variable usually holds it.
    pub fn require_key(mut self, variable: impl Into<String>) -> Self {
        self.key_variable = Some(variable.into());
        self
    }

    /// Adds a header to every request; its value is kept as a secret.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret<String>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Uses this client. Its connect timeout, proxies and redirects are the caller's business.
    pub fn client(mut self, client: reqwest::Client) -> Self {
        self.client = Some(client);
        self
    }

    /// Sets how long each stage may take.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Sets how failed calls are tried again.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Takes time and chance from here.
    pub fn env(mut self, env: Env) -> Self {
        self.env = env;
        self
    }

    /// Replaces what is known about the model.
    pub fn info(mut self, info: ModelInfo) -> Self {
        self.info = info;
        self
    }

    /// Changes what is known about the model: a price, a limit, an ability.
    pub fn with_info(mut self, change: impl FnOnce(&mut ModelInfo)) -> Self {
        change(&mut self.info);
        self
    }

    /// Changes the options of the wire.
    pub fn with_wire(mut self, change: impl FnOnce(&mut W)) -> Self {
        change(&mut self.wire);
        self
    }

    /// The same, whichever its wire is.
    pub fn boxed(self) -> HttpModelBuilder<Box<dyn Wire>> {
        HttpModelBuilder {
            wire: Box::new(self.wire),
            info: self.info,
            base_url: self.base_url,
            key: self.key,
            key_variable: self.key_variable,
            headers: self.headers,
            client: self.client,
            timeouts: self.timeouts,
            retry: self.retry,
            env: self.env,
        }
    }

    /// Checks everything and builds the model. Nothing is sent.
    pub fn build(self) -> Result<HttpModel, BuildError> {
        if self.info.model.trim().is_empty() {
            return Err(BuildError::Model);
        }
        let key = self.key.filter(|key| !key.expose().trim().is_empty());
        if let (None, Some(variable)) = (&key, self.key_variable) {
            return Err(BuildError::MissingKey { provider: self.info.provider, variable });
        }
        let mut headers = headers(&self.headers)?;
        headers.insert(ACCEPT, HeaderValue::from_static(self.wire.framing().media_type()));
        let key_text = key.as_ref().map(|key| key.expose().as_str());
        if self.wire.headers(key_text, &mut headers).is_err() {
            return Err(BuildError::Key);
        }
        let base = base_url(&self.base_url)?;
        let mut url = base.clone();
        let route = self.wire.route(base.path(), &self.info.model);
        let (path, query) = match route.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (route.as_str(), None),
        };
        url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
        url.set_query(query);
        let connect = self.timeouts.connect;
        let transport = match self.client {
            Some(client) => Transport::Client(client),
            None => match Plain::new(&url, connect, &mut headers) {
                Some(plain) => Transport::Plain(plain),
                None => Transport::Client(client::client(connect, url.scheme() == "https")?),
            },
        };
        Ok(HttpModel::new(Endpoint {
            wire: Box::new(self.wire),
            info: self.info,
            url,
            key,
            headers,
            transport,
            timeouts: self.timeouts,
            retry: self.retry,
            env: self.env,
        }))
    }
}

impl HttpModelBuilder<OpenAiChat> {
    /// Sends earlier reasoning back, for servers whose models want it.
    pub fn replay_reasoning(self, replay: bool) -> Self {
        self.with_wire(|wire| wire.replay_reasoning = replay)
    }

    /// Keeps a top-level field of the answers as metadata under `openai.<field>`.
    pub fn metadata_field(self, field: impl Into<String>) -> Self {
        self.with_wire(|wire| wire.metadata_fields.push(field.into()))
    }
}

impl HttpModelBuilder<AnthropicMessages> {
    /// Turns the marks for the vendor's prompt cache on or off.
    pub fn prompt_cache(self, on: bool) -> Self {
        self.with_wire(|wire| wire.prompt_cache = on)
    }

    /// Sets how the model is asked to think.
    pub fn thinking(self, thinking: Thinking) -> Self {
        self.with_wire(|wire| wire.thinking = thinking)
    }
}

impl HttpModelBuilder<BedrockConverse> {
    /// Signs requests instead of sending a key.
    pub fn credentials(mut self, credentials: AwsCredentials) -> Self {
        self.key_variable = None;
        self.with_wire(|wire| wire.credentials = Some(credentials))
    }
}

fn headers(own: &[(String, Secret<String>)]) -> Result<HeaderMap, BuildError> {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let agent = concat!("provost/", env!("CARGO_PKG_VERSION"));
    headers.insert(USER_AGENT, HeaderValue::from_static(agent));
    for (name, value) in own {
        let refused = |_| BuildError::Header(name.clone());
        let header = HeaderName::try_from(name).ok();
        let header = header.ok_or_else(|| refused(()))?;
        let value = HeaderValue::from_str(value.expose()).ok();
        let mut value = value.ok_or_else(|| refused(()))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

fn base_url(text: &str) -> Result<Url, BuildError> {
    let text = text.trim();
    let refused =
        |reason: &str| Err(BuildError::BaseUrl { url: public(text), reason: reason.to_owned() });
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(cause) => return refused(&cause.to_string()),
    };
    if !url.username().is_empty() || url.password().is_some() {
        return refused("it holds a user name or password; give the key to the builder");
    }
    if !matches!(url.scheme(), "http" | "https") {
        return refused("it must begin with http:// or https://");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return refused("it must have no query and no fragment");
    }
    Ok(url)
}

/// What of an address may be shown: neither user name nor password, and nothing from a query on.
///
/// It works on the text, since what cannot be parsed can hold a password too. A password may hold any character, so all up to
/// the last `@` goes. With a `?` or `#` before that `@` it might also be part of a query; then nothing is shown.
fn public(text: &str) -> String {
    let (scheme, rest) = match text.find("://") {
        Some(at) if is_scheme(&text[..at]) => text.split_at(at + 3),
        _ => ("", text),
    };
    let (shown, query) = match rest.find(['?', '#']) {
        Some(at) if rest[at..].contains('@') => return format!("{scheme}***"),
        Some(at) => (&rest[..=at], "***"),
        None => (rest, ""),
    };
    match shown.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}***@{host}{query}"),
        None => format!("{scheme}{shown}{query}"),
    }
}

fn is_scheme(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

#[cfg(test)]
mod tests;
