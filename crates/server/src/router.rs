//! What every request to an operation goes through on its way.

mod envelope;
mod site;
mod stream;

use std::net::{IpAddr, Ipv4Addr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use futures::FutureExt;
use http::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use http::request::Parts;
use http::{Method, StatusCode};
use provost_api::Problem;
use provost_core::ErrorKind;
use provost_core::work::Namespace;
use tokio::time::Instant;

pub(crate) use self::envelope::{RequestId, Unsealed};
pub(crate) use self::site::Site;
use crate::alarm::{Alarm, Elapsed};
use crate::app::App;
use crate::auth::{self, Principal};
use crate::error;
use crate::input::Cx;
use crate::middleware::{self, Caller, Standing};
use crate::openapi::BodySchema;
use crate::operation::{Access, Operation};

/// The operation that tells numbers; it may be open.
pub(crate) const METRICS: &str = "getMetrics";

/// The names in a path and what they stand for; a problem if that is no text.
type Parameters = Result<Vec<(&'static str, String)>, Problem>;

/// From where a request came.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin {
    /// Over a connection, from this address.
    Peer(IpAddr),
    /// From the same process. Nothing that arrives over a connection is marked like this.
    Process,
}

/// Everything that is served, for whoever has a router of their own to put it into.
pub fn router(app: App) -> Router {
    let site = Arc::new(Site::new(app));
    Router::new().fallback(move |request: Request| {
        let site = Arc::clone(&site);
        let nowhere = Origin::Peer(Ipv4Addr::UNSPECIFIED.into());
        async move { site.answer(request, nowhere).await }
    })
}

/// Answers one request to an operation, whatever happens.
async fn answer(
    app: &App,
    (operation, parameters): (&Operation, Parameters),
    request: Request,
    (origin, id, alarm): (Origin, &RequestId, &mut Alarm),
) -> Response {
    let started = Instant::now();
    let known = request.headers().get(IF_NONE_MATCH);
    let known = known.filter(|_| operation.method == Method::GET).cloned();
    let mut standing = None;
    let around = (origin, &mut standing, alarm);
    let done = perform(app, (operation, parameters), request, around).await;
    let mut response = done.unwrap_or_else(|refused| refuse(refused, id));
    if known.is_some_and(|known| is_known(&known, &response)) {
        response = unchanged(&response);
    }
    if let Some(standing) = standing {
        standing.write(response.headers_mut());
    }
    let status = response.status().as_u16();
    app.shared.metrics.answered(Some(operation.id), status, started.elapsed());
    response
}

/// True if the caller has what the answer holds: one of the tags it names, or any.
fn is_known(known: &HeaderValue, response: &Response) -> bool {
    let (Some(tag), Ok(known)) = (response.headers().get(ETAG), known.to_str()) else {
        return false;
    };
    let tags = known.split(',').map(|tag| tag.trim().trim_start_matches("W/"));
    tags.into_iter().any(|known| known == "*" || known.as_bytes() == tag.as_bytes())
}

/// The answer for somebody who has it: nothing but its tag.
fn unchanged(response: &Response) -> Response {
    let mut unchanged = Response::new(Body::empty());
    *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
    if let Some(tag) = response.headers().get(ETAG) {
        unchanged.headers_mut().insert(ETAG, tag.clone());
    }
    unchanged
}

/// A problem as the answer to a request.
fn refuse(mut refused: Problem, id: &RequestId) -> Response {
    refused.request_id = Some(id.text().to_owned());
    error::answer(&refused)
}

async fn perform(
    app: &App,
    (operation, parameters): (&Operation, Parameters),
    request: Request,
    (origin, standing, alarm): (Origin, &mut Option<Standing>, &mut Alarm),
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let who = admit(app, operation, &head, (origin, standing)).await?;
    let parameters = parameters?;
    let named = parameters.iter().find(|(name, _)| *name == "namespace");
    let named = named.map(|(_, text)| text.parse::<Namespace>()).transpose();
    let namespace = named.map_err(|error| not_found(&error.to_string()))?;
    auth::permit(&who, access(app, operation), namespace.as_ref())?;
    let max = operation.body_bytes_max.min(app.shared.options.body_bytes_max);
    let budget = (&app.shared.options.limits, &app.shared.bodies, &mut *alarm);
    // The share of the budget is held until the operation has ended.
    let (body, _share) = middleware::read(&head.headers, body, max, budget).await?;
    let cx = Cx {
        app: app.clone(),
        who,
        namespace: namespace.unwrap_or_default(),
        parameters,
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        schema: BodySchema::of(operation.id),
    };
    let doing = AssertUnwindSafe((operation.handler)(cx, body)).catch_unwind();
    let done = if operation.endless {
        until_drained(app, doing).await?
    } else {
        let time = app.shared.options.limits.answer_timeout;
        alarm.within(time, doing).await.map_err(|Elapsed| late())?
    };
    let response = done.unwrap_or_else(|_panic| {
        app.shared.metrics.panicked();
        Err(error::bug(&format_args!("the operation {} panicked", operation.id)))
    })?;
    Ok(stream::watch(app, response))
}

/// Who calls, counted in their bucket. Whoever has no valid token is counted by address.
async fn admit(
    app: &App,
    operation: &Operation,
    head: &Parts,
    (origin, standing): (Origin, &mut Option<Standing>),
) -> Result<Arc<Principal>, Problem> {
    let peer = match origin {
        Origin::Process => return Ok(Arc::new(Principal::local())),
        Origin::Peer(peer) => peer,
    };
    let found = auth::identify(app, access(app, operation), &head.headers, peer).await;
    let token = found.as_ref().ok().and_then(|who| who.token.clone());
    let caller = token.map_or(Caller::Peer(peer), Caller::Token);
    *standing = app.shared.rates.take(caller);
    match standing.and_then(|standing| standing.refused()) {
        Some(refused) => Err(refused),
        None => found,
    }
}

fn access(app: &App, operation: &Operation) -> Access {
    let open = app.shared.options.open_metrics && operation.id == METRICS;
    if open { Access::Open } else { operation.access }
}

/// Does something that may take long, unless the server stops.
async fn until_drained<T>(app: &App, doing: impl Future<Output = T>) -> Result<T, Problem> {
    tokio::select! {
        biased;
        () = app.shared.draining.cancelled() => Err(error::draining()),
        done = doing => Ok(done),
    }
}

fn late() -> Problem {
    let detail = "the answer took too long; what was asked may still happen";
    Problem::new(ErrorKind::Unavailable, "answer_timeout", detail)
}

fn not_found(why: &str) -> Problem {
    Problem::new(ErrorKind::NotFound, "not_found", why)
}
