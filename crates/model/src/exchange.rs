//! One question and one whole answer over HTTP, for everything that is no chat: embeddings, rankings, batches, lists of models.
//!
//! It knows no vendor's JSON. Answers are bounded, failures are typed and hold no key, and what may pass is tried again by the one
//! [`RetryPolicy`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use provost_core::limits::{ERROR_BODY_BYTES_MAX, RESPONSE_BYTES_MAX};
use provost_core::{Env, Secret, Timestamp};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Url};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::wire::Wire as _;
use crate::wire::openai_chat::OpenAiChat;
use crate::{BuildError, ModelError, ModelErrorClass, RetryPolicy, Timeouts};

/// Where vendors put the id of a request.
const REQUEST_ID_HEADERS: [&str; 3] = ["x-request-id", "request-id", "x-debug-trace-id"];
/// Values below this are switches rather than secrets.
const SECRET_BYTES_MIN: usize = 6;
const JSON: &str = "application/json";

/// How a key is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Auth {
    /// `Authorization: Bearer`.
    Bearer,
    /// In a header of the vendor's own.
    Header(&'static str),
}

/// What is needed to ask a vendor.
#[derive(Clone)]
pub(crate) struct ExchangeConfig {
    pub(crate) provider: String,
    pub(crate) base_url: String,
    pub(crate) auth: Auth,
    pub(crate) key: Option<Secret<String>>,
    /// The variable that usually holds the key, where building without one is a mistake.
    pub(crate) key_variable: Option<&'static str>,
    pub(crate) headers: Vec<(String, Secret<String>)>,
    pub(crate) timeouts: Timeouts,
    pub(crate) retry: RetryPolicy,
    pub(crate) env: Env,
}

impl ExchangeConfig {
    pub(crate) fn new(provider: &str, base_url: &str, auth: Auth) -> Self {
        Self {
            provider: provider.to_owned(),
            base_url: base_url.to_owned(),
            auth,
            key: None,
            key_variable: None,
            headers: Vec::new(),
            timeouts: Timeouts::default(),
            retry: RetryPolicy::default(),
            env: Env::system(),
        }
    }

    /// Checks everything. Nothing is sent.
    pub(crate) fn build(self) -> Result<Exchange, BuildError> {
        let Self {
            provider,
            base_url,
            auth,
            key,
            key_variable,
            headers: own,
            timeouts,
            retry,
            env,
        } = self;
        let key = key.filter(|key| !key.expose().trim().is_empty());
        if let (None, Some(variable)) = (&key, key_variable) {
            return Err(BuildError::MissingKey { provider, variable: variable.to_owned() });
        }
        let base = base(&base_url)?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(JSON));
        let agent = concat!("provost/", env!("CARGO_PKG_VERSION"));
        headers.insert(reqwest::header::USER_AGENT, HeaderValue::from_static(agent));
        let mut secrets = Vec::new();
        if let Some(key) = key {
            let (name, text) = match auth {
                Auth::Bearer => ("authorization", format!("Bearer {}", key.expose())),
                Auth::Header(name) => (name, key.expose().clone()),
            };
            let value = HeaderValue::from_str(&text).ok().ok_or(BuildError::Key)?;
            headers.insert(HeaderName::from_static(name), sensitive(value));
            secrets.push(key);
        }
        for (name, value) in own {
            let refused = || BuildError::Header(name.clone());
            let header = HeaderName::try_from(&name).ok().ok_or_else(refused)?;
            let text = HeaderValue::from_str(value.expose()).ok().ok_or_else(refused)?;
            headers.insert(header, sensitive(text));
            secrets.push(value);
        }
        let client = client(timeouts.connect, base.scheme() == "https")?;
        Ok(Exchange { client, base, headers, secrets, timeouts, retry, env })
    }
}

fn sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

fn base(text: &str) -> Result<Url, BuildError> {
    let refused = |reason: &str| BuildError::BaseUrl {
        // What stands before an `@` or behind a `?` may be a secret.
        url: text.split(['?', '#', '@']).next().unwrap_or_default().to_owned(),
        reason: reason.to_owned(),
    };
    let url = Url::parse(text.trim()).map_err(|cause| refused(&cause.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused("it must begin with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        return Err(refused("it must hold no user name, no password and no query"));
    }
    Ok(url)
}

fn client(connect: Duration, secure: bool) -> Result<reqwest::Client, BuildError> {
    let cert_file = std::env::var_os(provost_net::CERT_FILE_VARIABLE);
    let cert_file = cert_file.filter(|path| secure && !path.is_empty());
    let tls = provost_net::tls_config_with(cert_file.as_deref().map(std::path::Path::new));
    let tls = tls.map_err(|error| match error {
        provost_net::TlsError::Certificates { path, source } => {
            BuildError::Certificates { path, source: Box::new(source) }
        }
        provost_net::TlsError::Config(error) => BuildError::Tls(error),
    })?;
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(connect)
        // A redirect could carry the key to another host.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(BuildError::Client)
}

/// What is asked.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    /// Under the base URL, with its query.
    pub(crate) path: String,
    pub(crate) body: Option<(String, Bytes)>,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Ask {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), body: None, headers: Vec::new() }
    }

    pub(crate) fn post(path: impl Into<String>, json: Vec<u8>) -> Self {
        let body = Some((JSON.to_owned(), Bytes::from(json)));
        Self { method: Method::POST, path: path.into(), body, headers: Vec::new() }
    }
}

/// A vendor that can be asked.
pub(crate) struct Exchange {
    client: reqwest::Client,
    base: Url,
    headers: HeaderMap,
    secrets: Vec<Secret<String>>,
    timeouts: Timeouts,
    retry: RetryPolicy,
    env: Env,
}

impl Exchange {
    /// Asks and reads the answer, and asks again as the policy says. `read` must be pure.
    pub(crate) async fn ask<T>(
        &self,
        ask: Ask,
        read: impl Fn(&[u8]) -> Result<T, ModelError>,
    ) -> Result<T, ModelError> {
        let deadline = self.timeouts.total.and_then(|total| Instant::now().checked_add(total));
        let mut retries = 0;
        loop {
            let answer = self.once(&ask, deadline).await;
            let error = match answer.and_then(|answer| read(&answer)) {
                Ok(read) => return Ok(read),
                Err(error) => self.without_secrets(error),
            };
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            match self.retry.decide(&error, retries, left, self.env.random_unit()) {
                Some(delay) => sleep(delay).await,
                None => return Err(error),
            }
            retries += 1;
        }
    }

    /// Asks exactly once, for what must not happen twice.
    pub(crate) async fn ask_once<T>(
        &self,
        ask: Ask,
        read: impl Fn(&[u8]) -> Result<T, ModelError>,
    ) -> Result<T, ModelError> {
        let deadline = self.timeouts.total.and_then(|total| Instant::now().checked_add(total));
        let answer = self.once(&ask, deadline).await;
        answer.and_then(|answer| read(&answer)).map_err(|error| self.without_secrets(error))
    }

    async fn once(&self, ask: &Ask, deadline: Option<Instant>) -> Result<Vec<u8>, ModelError> {
        let url = self.url(&ask.path)?;
        let mut request =
            self.client.request(ask.method.clone(), url).headers(self.headers.clone());
        for (name, value) in &ask.headers {
            request = request.header(*name, value);
        }
        if let Some((kind, body)) = &ask.body {
            request = request.header(CONTENT_TYPE, kind).body(body.clone());
        }
        let first = crate::http::later(Instant::now(), self.timeouts.first_byte);
        let until = deadline.map_or(first, |deadline| deadline.min(first));
        let response = match timeout_at(until, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.broken(error)),
            Err(_elapsed) => return Err(late("the provider did not answer in time")),
        };
        let status = response.status();
        if status.is_success() {
            return self.read(response, deadline, RESPONSE_BYTES_MAX).await;
        }
        let headers = response.headers().clone();
        let mut error = if status.is_redirection() {
            let problem = "the server redirects: set the base URL to the final address";
            ModelError::new(ModelErrorClass::InvalidRequest, problem)
        } else {
            // Whatever goes wrong with it, the status is enough.
            let body = self.read(response, deadline, ERROR_BODY_BYTES_MAX).await;
            OpenAiChat::default().failure(Some(status.as_u16()), &body.unwrap_or_default())
        };
        error.status = Some(status.as_u16());
        error.retry_after = retry_after(&headers, self.env.now());
        let id = REQUEST_ID_HEADERS.iter().find_map(|name| headers.get(*name)?.to_str().ok());
        error.request_id = id.map(str::to_owned);
        Err(error)
    }

    fn url(&self, path: &str) -> Result<Url, ModelError> {
        let base = self.base.as_str().trim_end_matches('/');
        Url::parse(&format!("{base}{path}")).map_err(|cause| {
            let problem = "the address that follows from the request is none";
            ModelError::new(ModelErrorClass::InvalidRequest, problem).caused_by(cause)
        })
    }

    async fn read(
        &self,
        mut response: reqwest::Response,
        deadline: Option<Instant>,
        bytes_max: usize,
    ) -> Result<Vec<u8>, ModelError> {
        let mut read = Vec::new();
        loop {
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            let idle = left.map_or(self.timeouts.idle, |left| left.min(self.timeouts.idle));
            let chunk = match timeout(idle, response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => return Ok(read),
                Ok(Err(error)) => return Err(self.broken(error)),
                Err(_elapsed) => return Err(late("the provider stopped in the middle")),
            };
            if read.len() + chunk.len() > bytes_max {
                let problem = format!("the provider sent more than {bytes_max} bytes");
                return Err(ModelError::new(ModelErrorClass::Malformed, problem));
            }
            read.extend_from_slice(&chunk);
        }
    }

    fn broken(&self, error: reqwest::Error) -> ModelError {
        let host = self.base.host_str().unwrap_or("the server");
        let error = error.without_url();
        let (class, message) = match (error.is_timeout(), error.is_connect()) {
            (true, _) => (ModelErrorClass::Timeout, format!("no connection to {host} in time")),
            (false, true) => {
                let advice = "check that the server runs and that the base URL is right";
                (ModelErrorClass::Transport, format!("cannot connect to {host}: {advice}"))
            }
            (false, false) => {
                (ModelErrorClass::Transport, format!("the connection to {host} broke"))
            }
        };
        ModelError::new(class, message).caused_by(error)
    }

    /// A vendor may repeat the key in its complaint.
    fn without_secrets(&self, mut error: ModelError) -> ModelError {
        for secret in &self.secrets {
            let secret = secret.expose().trim();
            if secret.len() >= SECRET_BYTES_MIN && error.message.contains(secret) {
                error.message = error.message.replace(secret, "***");
            }
        }
        error
    }
}

fn late(problem: &str) -> ModelError {
    ModelError::new(ModelErrorClass::Timeout, problem)
}

fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = httpdate::parse_http_date(text).ok()?;
    let now: SystemTime = UNIX_EPOCH + now.since(Timestamp::from_millis(0));
    Some(at.duration_since(now).unwrap_or_default())
}

/// JSON of something that can be written as it.
pub(crate) fn json(body: &impl serde::Serialize) -> Result<Vec<u8>, ModelError> {
    serde_json::to_vec(body).map_err(|cause| {
        let problem = "the request cannot be written as JSON";
        ModelError::new(ModelErrorClass::InvalidRequest, problem).caused_by(cause)
    })
}

/// An answer that does not say what it should.
pub(crate) fn wrong(problem: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorClass::Malformed, problem)
}
