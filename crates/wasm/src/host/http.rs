//! HTTP requests of a module: one request as JSON, one response as JSON.
//!
//! The response to `{"method": "POST", "url": "https://…", "headers": {}, "body": "…"}` is `{"status": 200, "headers":
//! {}, "body": "…"}`. If no request was sent or no response arrived, it is `{"error": {"code": "…", "message": "…"}}`.
//! Bodies that are not UTF-8 are in `body_base64`.

use std::collections::BTreeMap;

use ::http::{HeaderMap, HeaderName, HeaderValue, Method};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use provost_net::{NetRequest, Url};
use provost_sandbox::{EgressDecision, EgressEvent};
use serde::{Deserialize, Serialize};
use tokio_util::task::AbortOnDropHandle;

use super::HostState;
use crate::limits::REQUEST_BYTES_MAX;

/// HTTP request of a module, as JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpCallRequest {
    #[serde(default)]
    method: Option<String>,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    body_base64: Option<String>,
}

/// HTTP response to a module, as JSON.
#[derive(Debug, Default, Serialize)]
struct HttpCallResponse {
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<HttpCallError>,
}

/// Error response to a module.
#[derive(Debug, Serialize)]
struct HttpCallError {
    code: &'static str,
    message: String,
}

impl HttpCallError {
    fn invalid(message: impl Into<String>) -> Self {
        Self { code: "invalid_input", message: message.into() }
    }

    fn denied(message: impl Into<String>) -> Self {
        Self { code: "permission_denied", message: message.into() }
    }

    fn failed(message: impl Into<String>) -> Self {
        Self { code: "execution_failed", message: message.into() }
    }
}

/// Sends one request. The module receives every error as a response. Returns an error, which stops the module, only if
/// the module exceeds a limit.
pub(crate) async fn send(host: &mut HostState, request: &[u8]) -> wasmtime::Result<Vec<u8>> {
    host.count_request()?;
    let response = match exchange(host, request).await {
        Ok(response) => response,
        Err(error) => HttpCallResponse { error: Some(error), ..HttpCallResponse::default() },
    };
    // A struct of strings and numbers always has a JSON representation.
    Ok(serde_json::to_vec(&response).unwrap_or_default())
}

/// Checks a request against the allow list, logs the decision, adds the credentials and sends the request.
async fn exchange(host: &mut HostState, request: &[u8]) -> Result<HttpCallResponse, HttpCallError> {
    let call: HttpCallRequest = serde_json::from_slice(request)
        .map_err(|error| HttpCallError::invalid(format!("the request is invalid: {error}")))?;
    let request = to_net_request(host, call)?;
    let log = HttpCallLog::of(&request);
    let is_allowed = |rule: &provost_sandbox::EgressRule| rule.matches(&log.host, log.port);
    if !host.rules.iter().any(is_allowed) {
        let reason = format!("`{}:{}` is not on the allow list of this tool", log.host, log.port);
        log.report(host, EgressDecision::Refused, &reason);
        return Err(HttpCallError::denied(reason));
    }
    host.usage.has_side_effects |= !matches!(request.method, Method::GET | Method::HEAD);
    let client = host.client.clone();
    let exchange_task = host.runtime.spawn(async move {
        let response = client.send(request).await?;
        let (status, headers) = (response.status.as_u16(), response.headers.clone());
        Ok((status, headers, response.bytes(REQUEST_BYTES_MAX as usize).await?))
    });
    let result = AbortOnDropHandle::new(exchange_task).await;
    let result: Result<_, provost_net::NetError> = result
        .map_err(|error| HttpCallError::failed(format!("the request was aborted: {error}")))?;
    match result {
        Ok((status, headers, body)) => {
            log.report(host, EgressDecision::Allowed, "");
            to_call_response(host, status, &headers, &body)
        }
        Err(error) => {
            let is_refused = matches!(error, provost_net::NetError::Refused { .. });
            let decision =
                if is_refused { EgressDecision::Refused } else { EgressDecision::Failed };
            let reason = error.to_string();
            log.report(host, decision, &reason);
            Err(if is_refused {
                HttpCallError::denied(reason)
            } else {
                HttpCallError::failed(reason)
            })
        }
    }
}

/// Fields of a request for the egress log.
struct HttpCallLog {
    method: String,
    host: String,
    port: u16,
}

impl HttpCallLog {
    /// Returns the fields of a request.
    fn of(request: &NetRequest) -> Self {
        let host = request.url.host_str().unwrap_or_default().trim_end_matches('.').to_owned();
        let port = request.url.port_or_known_default().unwrap_or_default();
        Self { method: request.method.to_string(), host, port }
    }

    /// Reports a decision to the egress log.
    fn report(&self, host: &HostState, decision: EgressDecision, reason: &str) {
        (host.egress)(EgressEvent {
            tool: host.tool.name.clone(),
            method: self.method.clone(),
            host: self.host.clone(),
            port: self.port,
            decision,
            reason: reason.to_owned(),
            labels: host.labels.clone(),
        });
    }
}

/// Converts a request of a module. Returns an error if its URL, method or a header is invalid.
fn to_net_request(host: &HostState, call: HttpCallRequest) -> Result<NetRequest, HttpCallError> {
    let url =
        Url::parse(&call.url).map_err(|error| HttpCallError::invalid(format!("`url`: {error}")))?;
    let method = call.method.as_deref().unwrap_or("GET").to_uppercase();
    let method = Method::from_bytes(method.as_bytes())
        .map_err(|error| HttpCallError::invalid(format!("`method`: {error}")))?;
    let mut headers = HeaderMap::new();
    for (name, value) in &call.headers {
        let invalid_module = || HttpCallError::invalid(format!("header `{name}` cannot be sent"));
        let name = HeaderName::try_from(name.as_str()).map_err(|_wrong| invalid_module())?;
        let value = HeaderValue::try_from(value.as_str()).map_err(|_wrong| invalid_module())?;
        headers.insert(name, value);
    }
    // The credentials of the operator replace headers of the module.
    for (name, secret) in &host.credentials.headers {
        let invalid_module =
            || HttpCallError::failed(format!("the secret for header `{name}` cannot be sent"));
        let name = HeaderName::try_from(name.as_str()).map_err(|_wrong| invalid_module())?;
        let mut value =
            HeaderValue::try_from(secret.expose().as_str()).map_err(|_wrong| invalid_module())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let body = match (call.body, call.body_base64) {
        (Some(_), Some(_)) => {
            return Err(HttpCallError::invalid("set either `body` or `body_base64`"));
        }
        (Some(text), None) => Bytes::from(text),
        (None, Some(text)) => {
            let invalid_module = |error| HttpCallError::invalid(format!("`body_base64`: {error}"));
            BASE64.decode(text).map_err(invalid_module)?.into()
        }
        (None, None) => Bytes::new(),
    };
    Ok(NetRequest { headers, body, ..NetRequest::new(method, url, host.deadline) })
}

/// Converts a response for a module. Returns an error if the response contains a credential.
fn to_call_response(
    host: &HostState,
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<HttpCallResponse, HttpCallError> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers: BTreeMap<String, String> =
        headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    for (_, secret) in &host.credentials.headers {
        // Only the part after the scheme is the secret, as in `Bearer x`.
        let value = secret.expose();
        let value = value.split_once(' ').map_or(value.as_str(), |(_, value)| value).trim();
        let has = |bytes: &[u8]| bytes.windows(value.len()).any(|part| part == value.as_bytes());
        let is_leaked =
            !value.is_empty() && (has(body) || headers.values().any(|text| has(text.as_bytes())));
        if is_leaked {
            return Err(HttpCallError::denied(
                "the response contains a secret that the module must not receive",
            ));
        }
    }
    let (body, body_base64) = match std::str::from_utf8(body) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(BASE64.encode(body))),
    };
    Ok(HttpCallResponse { status: Some(status), headers, body, body_base64, error: None })
}
