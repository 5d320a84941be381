//! The proxy server: plain requests and tunnels.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use provost_net::{NetError, NetRequest, NetResponse, Url};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{EgressDecision, EgressEvent, EgressPolicy, EgressRule, HostPort, parse_authority};

/// Maximum number of concurrent connections per socket.
const CONNECTIONS_MAX: usize = 64;
/// Maximum request body size, in bytes.
const REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Maximum size of a response that is scanned for a secret, in bytes.
const RESPONSE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Time limit of a plain request, and of opening a tunnel.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Hop-by-hop headers.
const HOP_HEADERS: [HeaderName; 9] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::PROXY_AUTHORIZATION,
    header::PROXY_AUTHENTICATE,
    header::CONTENT_ENCODING,
];

/// Response to the program in the sandbox.
type ProxyResponse = Response<UnsyncBoxBody<Bytes, NetError>>;

/// Accepts connections until `closed`, and serves each in a task of its own.
pub(super) async fn serve(
    egress: Arc<EgressPolicy>,
    listener: UnixListener,
    closed: CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = async {
            let permit = Arc::clone(&slots).acquire_owned().await.ok()?;
            Some((permit, listener.accept().await.ok()?.0))
        };
        let (permit, stream) = tokio::select! {
            biased;
            () = closed.cancelled() => return,
            accepted = accepted => match accepted {
                Some(accepted) => accepted,
                None => return,
            },
        };
        let (egress, closed) = (Arc::clone(&egress), closed.clone());
        tokio::spawn(async move {
            let _permit = permit;
            tokio::select! {
                biased;
                () = closed.cancelled() => {}
                () = connection(egress, stream, closed.clone()) => {}
            }
        });
    }
}

/// Serves the requests of one connection.
async fn connection(egress: Arc<EgressPolicy>, stream: UnixStream, closed: CancellationToken) {
    let service = service_fn(move |request| {
        let (egress, closed) = (Arc::clone(&egress), closed.clone());
        async move { Ok::<_, Infallible>(respond(&egress, request, closed).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        // Some clients shut down their sending half after the request and then read the response.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::trace!(%error, "a proxy connection failed");
    }
}

/// Answers one request: opens a tunnel for `CONNECT`, forwards a plain `http://` request, or refuses a host that no
/// rule matches. Every attempt is reported to the log.
async fn respond(
    egress: &EgressPolicy,
    request: Request<Incoming>,
    closed: CancellationToken,
) -> ProxyResponse {
    let target = match request.method() == Method::CONNECT {
        true => request.uri().authority().and_then(|to| parse_authority(to.as_str())),
        false if request.uri().scheme_str() == Some("http") => {
            request.uri().authority().and_then(|to| parse_authority(to.as_str()))
        }
        false => None,
    };
    let Some(target) = target else {
        let reason = "the request has no host: send an http:// URL or CONNECT to the proxy";
        return egress.refuse(&request, HostPort::default(), reason);
    };
    let Some(rule) = egress.rule(&target.host, target.port) else {
        return egress.refuse(&request, target, "the host is not on the tool's allow list");
    };
    match request.method() == Method::CONNECT {
        true => tunnel(egress, request, target, closed).await,
        false => plain(egress, rule, request, target).await,
    }
}

/// Connects to the host and copies bytes in both directions until either side or the proxy is closed. Reports the
/// attempt.
async fn tunnel(
    egress: &EgressPolicy,
    request: Request<Incoming>,
    target: HostPort,
    closed: CancellationToken,
) -> ProxyResponse {
    let deadline = Instant::now() + REQUEST_TIMEOUT;
    let outside = match egress.dialer.connect(&target.host, target.port, deadline).await {
        Ok(outside) => outside,
        Err(error) => return egress.connection_failed(request.method(), target, &error),
    };
    egress.log_event(request.method(), target, EgressDecision::Allowed, String::new());
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = closed.cancelled() => {}
            () = forward(request, outside) => {}
        }
    });
    text_response(StatusCode::OK, "")
}

/// Copies bytes between the program and the host in both directions until either side closes.
async fn forward(request: Request<Incoming>, mut outside: TcpStream) {
    let Ok(inside) = hyper::upgrade::on(request).await else { return };
    let mut inside = TokioIo::new(inside);
    let copied = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
    if let Err(error) = copied {
        tracing::trace!(%error, "a tunnel failed");
    }
}

/// Sends a plain request with the secrets of the rule. If the rule has secrets, the response is refused if it contains
/// one. Reports the attempt.
async fn plain(
    egress: &EgressPolicy,
    rule: &EgressRule,
    request: Request<Incoming>,
    target: HostPort,
) -> ProxyResponse {
    let method = request.method().clone();
    let outgoing = match outgoing_request(rule, request).await {
        Ok(outgoing) => outgoing,
        Err(reason) => {
            egress.log_event(&method, target, EgressDecision::Refused, reason.to_owned());
            return text_response(StatusCode::BAD_REQUEST, reason);
        }
    };
    let response = match egress.client.send(outgoing).await {
        Ok(response) => response,
        Err(error) => return egress.connection_failed(&method, target, &error),
    };
    match rule.headers.is_empty() {
        true => {
            egress.log_event(&method, target, EgressDecision::Allowed, String::new());
            pass_through(response)
        }
        false => match scan_response(rule, response).await {
            Ok(response) => {
                egress.log_event(&method, target, EgressDecision::Allowed, String::new());
                response
            }
            Err(reason) => {
                egress.log_event(&method, target, EgressDecision::Failed, reason.clone());
                text_response(StatusCode::BAD_GATEWAY, &reason)
            }
        },
    }
}

/// Builds the outgoing request with the secrets of the rule.
async fn outgoing_request(
    rule: &EgressRule,
    request: Request<Incoming>,
) -> Result<NetRequest, &'static str> {
    let (head, body) = request.into_parts();
    let mut url = Url::parse(&head.uri.to_string()).map_err(|_wrong| "the URL is invalid")?;
    if rule.uses_tls {
        let is_plain_port = url.port().is_none();
        url.set_scheme("https").map_err(|()| "the URL cannot be upgraded to https")?;
        if is_plain_port {
            url.set_port(None).map_err(|()| "the URL cannot have a port")?;
        }
    }
    let body = Limited::new(body, REQUEST_BYTES_MAX).collect().await;
    let body = body.map_err(|_cut| "the body exceeds 8 MiB or is incomplete")?.to_bytes();
    let mut outgoing = NetRequest::new(head.method, url, Instant::now() + REQUEST_TIMEOUT);
    outgoing.body = body;
    for (name, value) in &head.headers {
        let is_hop = HOP_HEADERS[..7].contains(name) || name == header::HOST;
        if !is_hop {
            outgoing.headers.append(name.clone(), value.clone());
        }
    }
    for (name, secret) in &rule.headers {
        let mut value = HeaderValue::from_str(secret.expose())
            .map_err(|_wrong| "the secret is not a valid header value")?;
        value.set_sensitive(true);
        outgoing.headers.insert(name.clone(), value);
    }
    Ok(outgoing)
}

/// Returns a response with a body that is streamed to the program.
fn pass_through(response: NetResponse) -> ProxyResponse {
    let (status, headers) = (response.status, response.headers.clone());
    let frames = response.stream().map(|chunk| chunk.map(Frame::data));
    let mut response = Response::new(StreamBody::new(frames.boxed()).boxed_unsync());
    *response.status_mut() = status;
    *response.headers_mut() = without_hops(headers);
    response
}

/// Reads a complete response. Fails if the response contains a secret.
async fn scan_response(rule: &EgressRule, response: NetResponse) -> Result<ProxyResponse, String> {
    let (status, headers) = (response.status, without_hops(response.headers.clone()));
    let body = response.bytes(RESPONSE_BYTES_MAX).await.map_err(|error| error.to_string())?;
    for (_, secret) in &rule.headers {
        // Only the part after the scheme is the secret, as in `Bearer x`.
        let value = secret.expose();
        let value = value.rsplit(' ').next().unwrap_or(value).as_bytes();
        let contains_secret =
            |text: &[u8]| !value.is_empty() && text.windows(value.len()).any(|part| part == value);
        if contains_secret(&body) || headers.values().any(|text| contains_secret(text.as_bytes())) {
            return Err(
                "the response contains a secret that the program must not receive".to_owned()
            );
        }
    }
    let mut response = Response::new(full(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// Removes the headers that concern only one connection.
fn without_hops(mut headers: HeaderMap) -> HeaderMap {
    for name in &HOP_HEADERS {
        headers.remove(name);
    }
    headers
}

/// Returns a body with these bytes.
fn full(bytes: impl Into<Bytes>) -> UnsyncBoxBody<Bytes, NetError> {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Returns a response with a text for the program.
fn text_response(status: StatusCode, reason: &str) -> ProxyResponse {
    let mut response = Response::new(full(reason.to_owned()));
    *response.status_mut() = status;
    response
}

impl EgressPolicy {
    /// Reports an attempt to the log of the policy.
    fn log_event(
        &self,
        method: &Method,
        target: HostPort,
        decision: EgressDecision,
        reason: String,
    ) {
        let (tool, method) = (self.tool.clone(), method.to_string());
        let (HostPort { host, port }, labels) = (target, self.labels.clone());
        (self.log)(EgressEvent { tool, method, host, port, decision, reason, labels });
    }

    /// Reports a refused request and returns the response with status 403.
    fn refuse(&self, request: &Request<Incoming>, target: HostPort, reason: &str) -> ProxyResponse {
        self.log_event(request.method(), target, EgressDecision::Refused, reason.to_owned());
        text_response(StatusCode::FORBIDDEN, reason)
    }

    /// Reports a failed connection and returns the response: 403 if the network policy forbids it, 504 for a timeout,
    /// otherwise 502.
    fn connection_failed(
        &self,
        method: &Method,
        target: HostPort,
        error: &NetError,
    ) -> ProxyResponse {
        let reason = error.to_string();
        let (decision, status) = match error {
            NetError::Refused { .. } | NetError::Url { .. } => {
                (EgressDecision::Refused, StatusCode::FORBIDDEN)
            }
            NetError::Timeout { .. } => (EgressDecision::Failed, StatusCode::GATEWAY_TIMEOUT),
            _ => (EgressDecision::Failed, StatusCode::BAD_GATEWAY),
        };
        self.log_event(method, target, decision, reason.clone());
        text_response(status, &reason)
    }
}
