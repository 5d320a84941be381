//! The proxy itself: plain requests and tunnels, one connection at a time.

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

use super::{Egress, EgressEvent, EgressRule, HostPort, Verdict, understood};

/// Connections to one entrance at the same time.
const CONNECTIONS_MAX: usize = 64;
/// Bytes of the body of a plain request.
const REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of an answer that is looked through for a secret.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Time for one plain request, and for a tunnel to stand.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Headers between us and whoever talks to us.
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

type Answer = Response<UnsyncBoxBody<Bytes, NetError>>;

/// Takes connections until the entrance is closed.
pub(super) async fn serve(egress: Arc<Egress>, listener: UnixListener, closed: CancellationToken) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let taken = async {
            let permit = Arc::clone(&room).acquire_owned().await.ok()?;
            Some((permit, listener.accept().await.ok()?.0))
        };
        let (permit, stream) = tokio::select! {
            biased;
            () = closed.cancelled() => return,
            taken = taken => match taken {
                Some(taken) => taken,
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

async fn connection(egress: Arc<Egress>, stream: UnixStream, closed: CancellationToken) {
    let service = service_fn(move |request| {
        let (egress, closed) = (Arc::clone(&egress), closed.clone());
        async move { Ok::<_, Infallible>(answer(&egress, request, closed).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        // Some say all that they have to say, close that half, and then listen.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::trace!(%error, "a connection to the proxy broke");
    }
}

async fn answer(egress: &Egress, request: Request<Incoming>, closed: CancellationToken) -> Answer {
    let target = match request.method() == Method::CONNECT {
        true => request.uri().authority().and_then(|to| understood(to.as_str())),
        false if request.uri().scheme_str() == Some("http") => {
            request.uri().authority().and_then(|to| understood(to.as_str()))
        }
        false => None,
    };
    let Some(target) = target else {
        let why = "the request names no host: use http:// with the proxy, or CONNECT";
        return egress.refuse(&request, HostPort::default(), why);
    };
    let Some(rule) = egress.rule(&target.host, target.port) else {
        return egress.refuse(&request, target, "the host is not on the list of the tool");
    };
    match request.method() == Method::CONNECT {
        true => tunnel(egress, request, target, closed).await,
        false => plain(egress, rule, request, target).await,
    }
}

async fn tunnel(
    egress: &Egress,
    request: Request<Incoming>,
    target: HostPort,
    closed: CancellationToken,
) -> Answer {
    let deadline = Instant::now() + REQUEST_TIMEOUT;
    let outside = match egress.dialer.connect(&target.host, target.port, deadline).await {
        Ok(outside) => outside,
        Err(error) => return egress.lost(request.method(), target, &error),
    };
    egress.tell(request.method(), target, Verdict::Allowed, String::new());
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = closed.cancelled() => {}
            () = carry(request, outside) => {}
        }
    });
    said(StatusCode::OK, "")
}

async fn carry(request: Request<Incoming>, mut outside: TcpStream) {
    let Ok(inside) = hyper::upgrade::on(request).await else { return };
    let mut inside = TokioIo::new(inside);
    let carried = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
    if let Err(error) = carried {
        tracing::trace!(%error, "a tunnel broke");
    }
}

async fn plain(
    egress: &Egress,
    rule: &EgressRule,
    request: Request<Incoming>,
    target: HostPort,
) -> Answer {
    let method = request.method().clone();
    let sending = match sending(rule, request).await {
        Ok(sending) => sending,
        Err(why) => {
            egress.tell(&method, target, Verdict::Refused, why.to_owned());
            return said(StatusCode::BAD_REQUEST, why);
        }
    };
    let answer = match egress.client.send(sending).await {
        Ok(answer) => answer,
        Err(error) => return egress.lost(&method, target, &error),
    };
    match rule.headers.is_empty() {
        true => {
            egress.tell(&method, target, Verdict::Allowed, String::new());
            passed(answer)
        }
        false => match looked_through(rule, answer).await {
            Ok(answer) => {
                egress.tell(&method, target, Verdict::Allowed, String::new());
                answer
            }
            Err(why) => {
                egress.tell(&method, target, Verdict::Failed, why.clone());
                said(StatusCode::BAD_GATEWAY, &why)
            }
        },
    }
}

/// The request as it goes out, with the secrets of the rule in it.
async fn sending(
    rule: &EgressRule,
    request: Request<Incoming>,
) -> Result<NetRequest, &'static str> {
    let (head, body) = request.into_parts();
    let mut url =
        Url::parse(&head.uri.to_string()).map_err(|_wrong| "the address cannot be read")?;
    if rule.upgrades {
        let is_plain_port = url.port().is_none();
        url.set_scheme("https").map_err(|()| "the address cannot be sent over TLS")?;
        if is_plain_port {
            url.set_port(None).map_err(|()| "the address has no port")?;
        }
    }
    let body = Limited::new(body, REQUEST_BYTES_MAX).collect().await;
    let body = body.map_err(|_cut| "the body is larger than 8 MiB, or was cut off")?.to_bytes();
    let mut sending = NetRequest::new(head.method, url, Instant::now() + REQUEST_TIMEOUT);
    sending.body = body;
    for (name, value) in &head.headers {
        let is_hop = HOP_HEADERS[..7].contains(name) || name == header::HOST;
        if !is_hop {
            sending.headers.append(name.clone(), value.clone());
        }
    }
    for (name, secret) in &rule.headers {
        let mut value = HeaderValue::from_str(secret.expose())
            .map_err(|_wrong| "the secret cannot stand in a header")?;
        value.set_sensitive(true);
        sending.headers.insert(name.clone(), value);
    }
    Ok(sending)
}

/// Hands an answer on as it comes.
fn passed(answer: NetResponse) -> Answer {
    let (status, headers) = (answer.status, answer.headers.clone());
    let frames = answer.stream().map(|chunk| chunk.map(Frame::data));
    let mut passed = Response::new(StreamBody::new(frames.boxed()).boxed_unsync());
    *passed.status_mut() = status;
    *passed.headers_mut() = without_hops(headers);
    passed
}

/// Reads an answer as a whole and refuses one that says a secret back.
async fn looked_through(rule: &EgressRule, answer: NetResponse) -> Result<Answer, String> {
    let (status, headers) = (answer.status, without_hops(answer.headers.clone()));
    let body = answer.bytes(ANSWER_BYTES_MAX).await.map_err(|error| error.to_string())?;
    for (_, secret) in &rule.headers {
        // A scheme before the value, as in `Bearer x`, is no secret.
        let value = secret.expose();
        let value = value.rsplit(' ').next().unwrap_or(value).as_bytes();
        let holds =
            |text: &[u8]| !value.is_empty() && text.windows(value.len()).any(|part| part == value);
        if holds(&body) || headers.values().any(|text| holds(text.as_bytes())) {
            return Err("the answer says back a secret that the program may not have".to_owned());
        }
    }
    let mut passed = Response::new(full(body));
    *passed.status_mut() = status;
    *passed.headers_mut() = headers;
    Ok(passed)
}

fn without_hops(mut headers: HeaderMap) -> HeaderMap {
    for name in &HOP_HEADERS {
        headers.remove(name);
    }
    headers
}

fn full(bytes: impl Into<Bytes>) -> UnsyncBoxBody<Bytes, NetError> {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

fn said(status: StatusCode, why: &str) -> Answer {
    let mut answer = Response::new(full(why.to_owned()));
    *answer.status_mut() = status;
    answer
}

impl Egress {
    fn tell(&self, method: &Method, target: HostPort, verdict: Verdict, why: String) {
        let (tool, method) = (self.tool.clone(), method.to_string());
        let (HostPort { host, port }, labels) = (target, self.labels.clone());
        (self.log)(EgressEvent { tool, method, host, port, verdict, why, labels });
    }

    fn refuse(&self, request: &Request<Incoming>, target: HostPort, why: &str) -> Answer {
        self.tell(request.method(), target, Verdict::Refused, why.to_owned());
        said(StatusCode::FORBIDDEN, why)
    }

    fn lost(&self, method: &Method, target: HostPort, error: &NetError) -> Answer {
        let why = error.to_string();
        let (verdict, status) = match error {
            NetError::Refused { .. } | NetError::Url { .. } => {
                (Verdict::Refused, StatusCode::FORBIDDEN)
            }
            NetError::Timeout { .. } => (Verdict::Failed, StatusCode::GATEWAY_TIMEOUT),
            _ => (Verdict::Failed, StatusCode::BAD_GATEWAY),
        };
        self.tell(method, target, verdict, why.clone());
        said(status, &why)
    }
}
