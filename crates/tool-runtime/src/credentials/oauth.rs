//! Tokens by client credentials, as RFC 6749 section 4.4 has it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use provost_core::resource::ToolAuth;
use provost_core::{Env, ErrorKind, Secret, Timestamp};
use provost_net::{NetClient, NetError, NetRequest, Url};
use provost_secret::{SecretError, SecretRef, Secrets};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::SharedError;

/// How long fetching a token may take.
const FETCH_TIME: Duration = Duration::from_secs(10);
/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Seconds that a token is good for if nothing is said.
const SECONDS_DEFAULT: u64 = 3600;
/// Seconds before its end in which a token is no longer used.
const SECONDS_SPARE: u64 = 30;
/// Seconds that a token is good for at most.
const SECONDS_MAX: u64 = 30 * 24 * 3600;
/// Characters of an error code that are told on.
const CODE_CHARS_MAX: usize = 40;

/// Whose token it is. The hash of the secret is part of it: who has another secret is somebody else, even by the same name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ClientId {
    url: String,
    id: String,
    scopes: Vec<String>,
    secret: [u8; 32],
}

/// Who asks for a token, where, and what for.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) id: ClientId,
    reference: SecretRef,
    url: Url,
    secret: Secret<String>,
}

/// A token and until when it is used.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) value: Secret<String>,
    pub(super) until: Timestamp,
}

impl Client {
    pub(super) fn new(
        reference: SecretRef,
        auth: &ToolAuth,
        id: Secret<String>,
        secret: Secret<String>,
    ) -> Result<Self, SecretError> {
        let unusable =
            |problem| SecretError::Unusable { reference: reference.to_string(), problem };
        let url = Url::parse(auth.token_url.trim())
            .ok()
            .ok_or_else(|| unusable("`tokenURL` is no address"))?;
        let mut scopes: Vec<String> = auth.scopes.clone();
        scopes.sort();
        scopes.dedup();
        let secret = Secret::from(secret.expose().trim());
        let id = ClientId {
            url: url.to_string(),
            id: id.expose().trim().to_owned(),
            scopes,
            secret: Sha256::digest(secret.expose().as_bytes()).into(),
        };
        Ok(Self { id, reference, url, secret })
    }
}

/// How a client says who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// In the header `Authorization`, which every server must understand.
    Header,
    /// In the body, which some servers insist on.
    Body,
}

/// Fetches tokens.
#[derive(Clone)]
pub(super) struct Fetcher {
    client: NetClient,
    secrets: Secrets,
}

/// What a server answers. Everything in it may be missing.
#[derive(Deserialize)]
struct Answer {
    access_token: Option<String>,
    token_type: Option<String>,
    refresh_token: Option<String>,
    expires_in: Option<serde_json::Value>,
    error: Option<String>,
}

impl Fetcher {
    pub(super) fn new(client: NetClient, secrets: Secrets) -> Self {
        Self { client, secrets }
    }

    /// Fetches a token: first with the header, and if the server does not know us by that, with the body.
    pub(super) fn fetch(
        &self,
        client: Client,
        env: Env,
    ) -> impl Future<Output = Result<Token, SharedError>> + Send + use<> {
        let fetcher = self.clone();
        async move {
            let deadline = Instant::now() + FETCH_TIME;
            let fetched = match fetcher.ask(&client, Style::Header, deadline).await {
                Ok(Err(_)) => fetcher.ask(&client, Style::Body, deadline).await,
                other => other,
            };
            let answer = fetched.and_then(|answer| answer).map_err(Arc::new)?;
            fetcher.token(&client, answer, &env).map_err(Arc::new)
        }
    }

    /// Asks once. The inner failure is one that may be about how we said who we are.
    async fn ask(
        &self,
        client: &Client,
        style: Style,
        deadline: Instant,
    ) -> Result<Result<Answer, SecretError>, SecretError> {
        let failed =
            |problem: String, kind| SecretError::Token { host: host(client), problem, kind };
        let of_net = |error: NetError| failed(error.to_string(), error.kind());
        let request = request(client, style, deadline)?;
        let response = self.client.send(request).await.map_err(of_net)?;
        let status = response.status;
        let body = response.bytes(ANSWER_BYTES_MAX).await.map_err(of_net)?;
        let answer: Option<Answer> = serde_json::from_slice(&body).ok();
        if status.is_success() {
            return match answer {
                Some(answer) => Ok(Ok(answer)),
                None => {
                    Err(failed("its answer is no JSON object".to_owned(), ErrorKind::Malformed))
                }
            };
        }
        let code = answer.and_then(|answer| answer.error).map(|code| plain(&code));
        let problem = match &code {
            Some(code) => format!("it answers {} `{code}`", status.as_u16()),
            None => format!("it answers {}", status.as_u16()),
        };
        let about_us = code.as_deref().is_none_or(|code| {
            matches!(code, "invalid_client" | "invalid_request" | "unauthorized_client")
        });
        match status {
            StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED if about_us => {
                Ok(Err(failed(problem, ErrorKind::Unauthenticated)))
            }
            StatusCode::TOO_MANY_REQUESTS => Err(failed(problem, ErrorKind::RateLimited)),
            status if status.is_server_error() => Err(failed(problem, ErrorKind::Unavailable)),
            _ => Err(failed(problem, ErrorKind::Denied)),
        }
    }

    fn token(&self, client: &Client, answer: Answer, env: &Env) -> Result<Token, SecretError> {
        let malformed = |problem: &str| SecretError::Token {
            host: host(client),
            problem: problem.to_owned(),
            kind: ErrorKind::Malformed,
        };
        let value =
            answer.access_token.map(Secret::new).filter(|token| !token.expose().trim().is_empty());
        let value = value.ok_or_else(|| malformed("its answer has no `access_token`"))?;
        // Known before anybody has it.
        self.secrets.teach(&client.reference, &value)?;
        if let Some(refresh) = answer.refresh_token.map(Secret::new) {
            // Nobody uses it, so one that is too short to be known does no harm.
            self.secrets.teach(&client.reference, &refresh).ok();
        }
        if answer.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            return Err(malformed("its token is no bearer token"));
        }
        let seconds = match &answer.expires_in {
            None => SECONDS_DEFAULT,
            Some(value) => {
                seconds(value).ok_or_else(|| malformed("its `expires_in` is no number"))?
            }
        };
        let good_for = seconds.min(SECONDS_MAX).saturating_sub(SECONDS_SPARE).max(1);
        Ok(Token { value, until: env.now().after(Duration::from_secs(good_for)) })
    }
}

fn request(client: &Client, style: Style, deadline: Instant) -> Result<NetRequest, SecretError> {
    let mut body = Zeroizing::new(String::from("grant_type=client_credentials"));
    if !client.id.scopes.is_empty() {
        body.push_str("&scope=");
        body.push_str(&form(&client.id.scopes.join(" ")));
    }
    let (id, secret) = (form(&client.id.id), Zeroizing::new(form(client.secret.expose())));
    if style == Style::Body {
        body.push_str(&format!("&client_id={id}&client_secret={}", *secret));
    }
    let mut request = NetRequest::post(client.url.clone(), body.as_bytes().to_vec(), deadline);
    let headers = &mut request.headers;
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if style == Style::Header {
        let pair = Zeroizing::new(format!("{id}:{}", *secret));
        let value = Zeroizing::new(format!("Basic {}", BASE64_STANDARD.encode(pair.as_bytes())));
        let unusable = || SecretError::Unusable {
            reference: client.reference.to_string(),
            problem: "it is too long for a header",
        };
        let mut value = HeaderValue::from_str(&value).ok().ok_or_else(unusable)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(request)
}

/// As a form writes it.
fn form(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' => {
                out.push(char::from(byte))
            }
            b' ' => out.push('+'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Some servers write the number as text.
fn seconds(value: &serde_json::Value) -> Option<u64> {
    match value {
        serde_json::Value::String(text) => text.trim().parse().ok(),
        value => value.as_u64().or_else(|| value.as_f64().filter(|n| *n >= 0.0).map(|n| n as u64)),
    }
}

/// The server's own word for what is wrong, as far as it is a word.
fn plain(code: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_lowercase() || *c == '_';
    code.chars().take_while(is_plain).take(CODE_CHARS_MAX).collect()
}

fn host(client: &Client) -> String {
    client.url.host_str().unwrap_or_default().to_owned()
}
