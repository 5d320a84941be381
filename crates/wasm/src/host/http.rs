//! A module asks a host: one request as JSON, one answer as JSON.
//!
//! `{"method": "POST", "url": "https://…", "headers": {}, "body": "…"}` is answered with `{"status": 200, "headers": {}, "body":
//! "…"}` or, if nobody was asked or nobody answered, with `{"error": {"code": "…", "message": "…"}}`. Bodies that are no text are
//! `body_base64`.

use std::collections::BTreeMap;

use ::http::{HeaderMap, HeaderName, HeaderValue, Method};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use provost_net::{NetRequest, Url};
use provost_sandbox::{EgressEvent, Verdict};
use serde::{Deserialize, Serialize};
use tokio_util::task::AbortOnDropHandle;

use super::Host;
use crate::limits::REQUEST_BYTES_MAX;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
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

#[derive(Debug, Default, Serialize)]
struct Answered {
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Why>,
}

#[derive(Debug, Serialize)]
struct Why {
    code: &'static str,
    message: String,
}

impl Why {
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

/// Makes one request. Whatever happens, the module gets an answer; only one that asks for too much is stopped.
pub(crate) async fn send(host: &mut Host, request: &[u8]) -> wasmtime::Result<Vec<u8>> {
    host.count_request()?;
    let answered = match exchange(host, request).await {
        Ok(answered) => answered,
        Err(error) => Answered { error: Some(error), ..Answered::default() },
    };
    // A struct of texts and numbers always has a JSON form.
    Ok(serde_json::to_vec(&answered).unwrap_or_default())
}

async fn exchange(host: &mut Host, request: &[u8]) -> Result<Answered, Why> {
    let asked: Asked = serde_json::from_slice(request)
        .map_err(|error| Why::invalid(format!("the request is none: {error}")))?;
    let request = request_of(host, asked)?;
    let told = Told::of(&request);
    let covers = |rule: &provost_sandbox::EgressRule| rule.covers(&told.host, told.port);
    if !host.rules.iter().any(covers) {
        let why = format!("`{}:{}` is not on the list of this tool", told.host, told.port);
        told.say(host, Verdict::Refused, &why);
        return Err(Why::denied(why));
    }
    host.used.has_acted |= !matches!(request.method, Method::GET | Method::HEAD);
    let client = host.client.clone();
    let asking = host.home.spawn(async move {
        let answer = client.send(request).await?;
        let (status, headers) = (answer.status.as_u16(), answer.headers.clone());
        Ok((status, headers, answer.bytes(REQUEST_BYTES_MAX as usize).await?))
    });
    let came = AbortOnDropHandle::new(asking).await;
    let came: Result<_, provost_net::NetError> =
        came.map_err(|error| Why::failed(format!("nobody waited for the answer: {error}")))?;
    match came {
        Ok((status, headers, body)) => {
            told.say(host, Verdict::Allowed, "");
            answer_of(host, status, &headers, &body)
        }
        Err(error) => {
            let is_refused = matches!(error, provost_net::NetError::Refused { .. });
            let verdict = if is_refused { Verdict::Refused } else { Verdict::Failed };
            let why = error.to_string();
            told.say(host, verdict, &why);
            Err(if is_refused { Why::denied(why) } else { Why::failed(why) })
        }
    }
}

/// What is told about a request.
struct Told {
    method: String,
    host: String,
    port: u16,
}

impl Told {
    fn of(request: &NetRequest) -> Self {
        let host = request.url.host_str().unwrap_or_default().trim_end_matches('.').to_owned();
        let port = request.url.port_or_known_default().unwrap_or_default();
        Self { method: request.method.to_string(), host, port }
    }

    fn say(&self, host: &Host, verdict: Verdict, why: &str) {
        (host.egress)(EgressEvent {
            tool: host.tool.name.clone(),
            method: self.method.clone(),
            host: self.host.clone(),
            port: self.port,
            verdict,
            why: why.to_owned(),
            labels: host.labels.clone(),
        });
    }
}

fn request_of(host: &Host, asked: Asked) -> Result<NetRequest, Why> {
    let url = Url::parse(&asked.url).map_err(|error| Why::invalid(format!("`url`: {error}")))?;
    let method = asked.method.as_deref().unwrap_or("GET").to_uppercase();
    let method = Method::from_bytes(method.as_bytes())
        .map_err(|error| Why::invalid(format!("`method`: {error}")))?;
    let mut headers = HeaderMap::new();
    for (name, value) in &asked.headers {
        let wrong = || Why::invalid(format!("header `{name}` cannot be sent"));
        let name = HeaderName::try_from(name.as_str()).map_err(|_wrong| wrong())?;
        let value = HeaderValue::try_from(value.as_str()).map_err(|_wrong| wrong())?;
        headers.insert(name, value);
    }
    // What the operator says counts, whatever the module wrote into the same header.
    for (name, secret) in &host.credentials.headers {
        let wrong = || Why::failed(format!("the secret for header `{name}` cannot be sent"));
        let name = HeaderName::try_from(name.as_str()).map_err(|_wrong| wrong())?;
        let mut value =
            HeaderValue::try_from(secret.expose().as_str()).map_err(|_wrong| wrong())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let body = match (asked.body, asked.body_base64) {
        (Some(_), Some(_)) => return Err(Why::invalid("`body` and `body_base64`: write one")),
        (Some(text), None) => Bytes::from(text),
        (None, Some(text)) => {
            let wrong = |error| Why::invalid(format!("`body_base64`: {error}"));
            BASE64.decode(text).map_err(wrong)?.into()
        }
        (None, None) => Bytes::new(),
    };
    Ok(NetRequest { headers, body, ..NetRequest::new(method, url, host.deadline) })
}

fn answer_of(host: &Host, status: u16, headers: &HeaderMap, body: &[u8]) -> Result<Answered, Why> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers: BTreeMap<String, String> =
        headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    for (_, secret) in &host.credentials.headers {
        // A scheme before the value, as in `Bearer x`, is no secret.
        let value = secret.expose();
        let value = value.split_once(' ').map_or(value.as_str(), |(_, value)| value).trim();
        let has = |bytes: &[u8]| bytes.windows(value.len()).any(|part| part == value.as_bytes());
        let is_said =
            !value.is_empty() && (has(body) || headers.values().any(|text| has(text.as_bytes())));
        if is_said {
            return Err(Why::denied("the answer says back a secret that the module may not have"));
        }
    }
    let (body, body_base64) = match std::str::from_utf8(body) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(BASE64.encode(body))),
    };
    Ok(Answered { status: Some(status), headers, body, body_base64, error: None })
}
