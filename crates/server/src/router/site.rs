//! From the table to the one who answers: by path, then by method.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::header::{ALLOW, CONTENT_LENGTH, HeaderValue};
use http::{Method, StatusCode};
use http_body::Body as _;
use matchit::Params;
use percent_encoding::percent_decode_str;
use provost_api::Problem;
use provost_core::ErrorKind;

use super::envelope::{RequestId, Unsealed};
use super::{Origin, Parameters, answer, not_found, refuse};
use crate::alarm::Alarm;
use crate::app::App;
use crate::operation::Operation;
use crate::{controllers, error};

/// Everything that is served.
pub(crate) struct Site {
    app: App,
    places: matchit::Router<Place>,
}

/// Where a request leads.
pub(crate) struct Route<'a> {
    /// Nothing if there is no such path.
    place: Option<&'a Place>,
    /// Nothing if the path has no such method.
    operation: Option<&'a Operation>,
    parameters: Parameters,
}

impl Route<'_> {
    /// True if the answer is no stream and no long wait.
    pub(crate) fn is_brief(&self) -> bool {
        self.operation.is_none_or(|operation| !operation.endless)
    }
}

/// A path and what can be done there.
struct Place {
    operations: Vec<Operation>,
    /// The names in the path, in order.
    names: Vec<&'static str>,
    /// What `Allow` says: the methods of the table, and those that follow from them.
    allowed: String,
}

impl Place {
    fn new(operations: Vec<Operation>) -> Self {
        let mut methods: Vec<&str> =
            operations.iter().map(|operation| operation.method.as_str()).collect();
        if methods.contains(&"GET") {
            methods.push("HEAD");
        }
        methods.push("OPTIONS");
        let names = operations.first().map(|operation| operation.parameters().collect());
        Self { allowed: methods.join(", "), names: names.unwrap_or_default(), operations }
    }

    fn operation(&self, method: &Method) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.method == *method)
    }
}

impl Site {
    /// The whole table.
    pub(crate) fn new(app: App) -> Self {
        let mut paths: BTreeMap<&'static str, Vec<Operation>> = BTreeMap::new();
        for operation in controllers::table() {
            paths.entry(operation.path).or_default().push(operation);
        }
        let mut places = matchit::Router::new();
        for (path, operations) in paths {
            if let Err(error) = places.insert(path, Place::new(operations)) {
                tracing::error!(%error, "the path {path} is not served: it cannot be told from another");
            }
        }
        Self { app, places }
    }

    /// Where a request leads.
    pub(crate) fn find(&self, request: &Request) -> Route<'_> {
        let Ok(found) = self.places.at(request.uri().path()) else {
            return Route { place: None, operation: None, parameters: Ok(Vec::new()) };
        };
        // Whoever asks for the head only gets what a reader would get, without the body.
        let head_only = *request.method() == Method::HEAD;
        let method = if head_only { &Method::GET } else { request.method() };
        let operation = found.value.operation(method);
        let parameters = parameters(&found.value.names, &found.params);
        Route { place: Some(found.value), operation, parameters }
    }

    /// Answers a request, whatever it asks for.
    pub(crate) async fn answer(&self, request: Request, origin: Origin) -> Response {
        let route = self.find(&request);
        self.answer_at(route, request, (origin, &mut Alarm::default())).await.sealed()
    }

    /// Answers a request where it leads. The alarm bounds how long that takes; it may be one that is kept for all requests of
    /// a connection.
    pub(crate) async fn answer_at(
        &self,
        route: Route<'_>,
        request: Request,
        (origin, alarm): (Origin, &mut Alarm),
    ) -> Unsealed {
        let id = RequestId::of(&self.app, &request);
        let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
        let max = self.app.shared.options.limits.uri_bytes_max;
        let response = if target > max {
            let detail = format!("the path and the query have more than {max} bytes: send less");
            refuse(Problem::new(ErrorKind::Invalid, "uri_too_long", detail).status(414), &id)
        } else {
            self.follow(route, request, (origin, &id, alarm)).await
        };
        Unsealed { response, id }
    }

    async fn follow(
        &self,
        Route { place, operation, parameters }: Route<'_>,
        request: Request,
        (origin, id, alarm): (Origin, &RequestId, &mut Alarm),
    ) -> Response {
        let Some(place) = place else {
            let detail = "there is no such path: see /docs";
            let problem = Problem::new(ErrorKind::NotFound, "not_found", detail);
            self.app.shared.metrics.answered(None, problem.status, Duration::ZERO);
            return refuse(problem, id);
        };
        let Some(operation) = operation else { return self.other(place, &request, id) };
        let head_only = *request.method() == Method::HEAD;
        let around = (origin, id, alarm);
        let response = answer(&self.app, (operation, parameters), request, around).await;
        if head_only { without_body(response) } else { response }
    }

    /// Answers a method that no operation of the place has.
    fn other(&self, place: &Place, request: &Request, id: &RequestId) -> Response {
        let response = if *request.method() == Method::OPTIONS {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            if let Ok(allowed) = HeaderValue::from_str(&place.allowed) {
                response.headers_mut().insert(ALLOW, allowed);
            }
            response
        } else {
            error::method_not_allowed(&place.allowed, id)
        };
        self.app.shared.metrics.answered(None, response.status().as_u16(), Duration::ZERO);
        response
    }
}

/// What the names in a path stand for. What is no UTF-8 names nothing.
fn parameters(names: &[&'static str], found: &Params<'_, '_>) -> Parameters {
    let mut parameters = Vec::with_capacity(names.len());
    for (name, (_, text)) in names.iter().zip(found.iter()) {
        let text = percent_decode_str(text)
            .decode_utf8()
            .map_err(|error| not_found(&format!("the {name} in the path is no UTF-8: {error}")))?;
        parameters.push((*name, text.into_owned()));
    }
    Ok(parameters)
}

fn without_body(response: Response) -> Response {
    let length = response.body().size_hint().exact();
    let mut response = response.map(|_body| Body::empty());
    if let Some(length) = length {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert(HeaderValue::from(length));
    }
    response
}
