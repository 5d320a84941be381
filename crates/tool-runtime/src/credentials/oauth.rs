//! OAuth client credentials grant, RFC 6749 section 4.4.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use provost_core::resource::ToolAuth;
use provost_core::{Env, ErrorKind, Secret, Timestamp};
use provost_net::{NetClient, NetError, NetRequest, Url};
use provost_secret::{SecretError, SecretRef, SecretService};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::SharedError;

/// Timeout of a token request.
const FETCH_TIME: Duration = Duration::from_secs(10);
/// Maximum size of a response.
const RESPONSE_BYTES_MAX: usize = 1024 * 1024;
/// Default lifetime of a token in seconds.
const SECONDS_DEFAULT: u64 = 3600;
/// Time before the expiration in which a token is no longer used, in seconds.
const SECONDS_SPARE: u64 = 30;
/// Maximum lifetime of a token in seconds.
const SECONDS_MAX: u64 = 30 * 24 * 3600;
/// Maximum length of a reported error code.
const CODE_CHARS_MAX: usize = 40;

/// Identity of an OAuth client. It contains a hash of the secret, so clients with different secrets never share a
/// token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ClientId {
    url: String,
    id: String,
    scopes: Vec<String>,
    secret: [u8; 32],
}

/// OAuth client: its identity, secret and token URL.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) id: ClientId,
    reference: SecretRef,
    url: Url,
    secret: Secret<String>,
}

/// An access token with its expiration time.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) value: Secret<String>,
    pub(super) until: Timestamp,
}

impl Client {
    /// Creates a client. Returns an error if the token URL is invalid.
    pub(super) fn new(
        reference: SecretRef,
        auth: &ToolAuth,
        id: Secret<String>,
        secret: Secret<String>,
    ) -> Result<Self, SecretError> {
        let invalid = |problem| SecretError::Unusable { reference: reference.to_string(), problem };
        let url = Url::parse(auth.token_url.trim())
            .ok()
            .ok_or_else(|| invalid("`tokenURL` is not a valid URL"))?;
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

/// Part of the token request that contains the client's credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AuthStyle {
    /// HTTP basic authentication, which every server must support.
    Header,
    /// Credentials in the body, which some servers require.
    Body,
}

/// Fetches tokens from token endpoints.
#[derive(Clone)]
pub(super) struct Fetcher {
    client: NetClient,
    secrets: SecretService,
}

/// Response of a token endpoint. Every field is optional.
#[derive(Deserialize)]
struct TokenResponse {
    access_token: Option<String>,
    token_type: Option<String>,
    refresh_token: Option<String>,
    expires_in: Option<serde_json::Value>,
    error: Option<String>,
}

impl Fetcher {
    pub(super) fn new(client: NetClient, secrets: SecretService) -> Self {
        Self { client, secrets }
    }

    /// Fetches a token and registers it for redaction. If the server rejects credentials in the header, repeats the
    /// request with credentials in the body.
    pub(super) fn fetch(
        &self,
        client: Client,
        env: Env,
    ) -> impl Future<Output = Result<Token, SharedError>> + Send + use<> {
        let fetcher = self.clone();
        async move {
            let deadline = Instant::now() + FETCH_TIME;
            let fetched = match fetcher.request_token(&client, AuthStyle::Header, deadline).await {
                Ok(Err(_)) => fetcher.request_token(&client, AuthStyle::Body, deadline).await,
                other => other,
            };
            let response = fetched.and_then(|response| response).map_err(Arc::new)?;
            fetcher.validate_token(&client, response, &env).map_err(Arc::new)
        }
    }

    /// Sends one token request. An error that the style may have caused is the inner error; the caller then tries the
    /// other style.
    async fn request_token(
        &self,
        client: &Client,
        style: AuthStyle,
        deadline: Instant,
    ) -> Result<Result<TokenResponse, SecretError>, SecretError> {
        let failed =
            |problem: String, kind| SecretError::Token { host: host(client), problem, kind };
        let of_net = |error: NetError| failed(error.to_string(), error.kind());
        let request = build_request(client, style, deadline)?;
        let response = self.client.send(request).await.map_err(of_net)?;
        let status = response.status;
        let body = response.bytes(RESPONSE_BYTES_MAX).await.map_err(of_net)?;
        let response: Option<TokenResponse> = serde_json::from_slice(&body).ok();
        if status.is_success() {
            return match response {
                Some(response) => Ok(Ok(response)),
                None => Err(failed(
                    "the response is not a JSON object".to_owned(),
                    ErrorKind::Malformed,
                )),
            };
        }
        let code = response.and_then(|response| response.error).map(|code| sanitize_code(&code));
        let problem = match &code {
            Some(code) => format!("the response is {} `{code}`", status.as_u16()),
            None => format!("the response is {}", status.as_u16()),
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

    /// Converts a response to a token, and registers it for redaction. Returns an error if it is not a bearer token.
    fn validate_token(
        &self,
        client: &Client,
        response: TokenResponse,
        env: &Env,
    ) -> Result<Token, SecretError> {
        let malformed = |problem: &str| SecretError::Token {
            host: host(client),
            problem: problem.to_owned(),
            kind: ErrorKind::Malformed,
        };
        let value = response
            .access_token
            .map(Secret::new)
            .filter(|token| !token.expose().trim().is_empty());
        let value = value.ok_or_else(|| malformed("the response has no `access_token`"))?;
        // The token is registered for redaction before it is used.
        self.secrets.register(&client.reference, &value)?;
        if let Some(refresh) = response.refresh_token.map(Secret::new) {
            // The refresh token is not used, so a failed registration is harmless.
            self.secrets.register(&client.reference, &refresh).ok();
        }
        if response.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            return Err(malformed("the token is not a bearer token"));
        }
        let seconds = match &response.expires_in {
            None => SECONDS_DEFAULT,
            Some(value) => {
                seconds(value).ok_or_else(|| malformed("`expires_in` is not a number"))?
            }
        };
        let good_for = seconds.min(SECONDS_MAX).saturating_sub(SECONDS_SPARE).max(1);
        Ok(Token { value, until: env.now().after(Duration::from_secs(good_for)) })
    }
}

/// Builds a token request.
fn build_request(
    client: &Client,
    style: AuthStyle,
    deadline: Instant,
) -> Result<NetRequest, SecretError> {
    let mut body = Zeroizing::new(String::from("grant_type=client_credentials"));
    if !client.id.scopes.is_empty() {
        body.push_str("&scope=");
        body.push_str(&form_encode(&client.id.scopes.join(" ")));
    }
    let (id, secret) =
        (form_encode(&client.id.id), Zeroizing::new(form_encode(client.secret.expose())));
    if style == AuthStyle::Body {
        body.push_str(&format!("&client_id={id}&client_secret={}", *secret));
    }
    let mut request = NetRequest::post(client.url.clone(), body.as_bytes().to_vec(), deadline);
    let headers = &mut request.headers;
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if style == AuthStyle::Header {
        let pair = Zeroizing::new(format!("{id}:{}", *secret));
        let value = Zeroizing::new(format!("Basic {}", BASE64_STANDARD.encode(pair.as_bytes())));
        let invalid = || SecretError::Unusable {
            reference: client.reference.to_string(),
            problem: "it is too long for a header",
        };
        let mut value = HeaderValue::from_str(&value).ok().ok_or_else(invalid)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(request)
}

/// Encodes a value for `application/x-www-form-urlencoded`.
fn form_encode(text: &str) -> String {
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

/// Parses a number of seconds. Some servers send it as text. `None` if it is not a number.
fn seconds(value: &serde_json::Value) -> Option<u64> {
    match value {
        serde_json::Value::String(text) => text.trim().parse().ok(),
        value => value.as_u64().or_else(|| value.as_f64().filter(|n| *n >= 0.0).map(|n| n as u64)),
    }
}

/// Returns the error code of the server up to the first character that codes do not contain.
fn sanitize_code(code: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_lowercase() || *c == '_';
    code.chars().take_while(is_plain).take(CODE_CHARS_MAX).collect()
}

fn host(client: &Client) -> String {
    client.url.host_str().unwrap_or_default().to_owned()
}
