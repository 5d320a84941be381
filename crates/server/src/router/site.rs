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

use super::{Parameters, answer, envelope, not_found, refuse};
use crate::app::App;
use crate::operation::Operation;
use crate::{problem, routes};

/// Everything that is served.
pub(crate) struct Site {
    app: App,
    places: matchit::Router<Place>,
}

/// A path and what can be done there.
struct Place {
    operations: Vec<Operation>,
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
        Self { allowed: methods.join(", "), operations }
    }

    fn operation(&self, method: &Method) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.method == *method)
    }
}

impl Site {
    /// The whole table.
    pub(crate) fn new(app: App) -> Self {
        let mut paths: BTreeMap<&'static str, Vec<Operation>> = BTreeMap::new();
        for operation in routes::table() {
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

    /// Answers a request, whatever it asks for.
    pub(crate) async fn answer(&self, request: Request) -> Response {
        envelope::wrap(&self.app, request, |request| self.route(request)).await
    }

    async fn route(&self, request: Request) -> Response {
        let Ok(found) = self.places.at(request.uri().path()) else {
            let detail = "there is no such path: see /docs";
            let problem = Problem::new(ErrorKind::NotFound, "not_found", detail);
            self.app.shared.metrics.answered(None, problem.status, Duration::ZERO);
            return refuse(problem, request.extensions().get());
        };
        let (place, parameters) = (found.value, parameters(&found.params));
        // Whoever asks for the head only gets what a reader would get, without the body.
        let head_only = *request.method() == Method::HEAD;
        let method = if head_only { &Method::GET } else { request.method() };
        let Some(operation) = place.operation(method) else { return self.other(place, &request) };
        let response = answer(&self.app, operation, parameters, request).await;
        if head_only { without_body(response) } else { response }
    }

    /// Answers a method that no operation of the place has.
    fn other(&self, place: &Place, request: &Request) -> Response {
        let response = if *request.method() == Method::OPTIONS {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            if let Ok(allowed) = HeaderValue::from_str(&place.allowed) {
                response.headers_mut().insert(ALLOW, allowed);
            }
            response
        } else {
            problem::method_not_allowed(&place.allowed, request.extensions().get())
        };
        self.app.shared.metrics.answered(None, response.status().as_u16(), Duration::ZERO);
        response
    }
}

/// What the names in a path stand for. What is no UTF-8 names nothing.
fn parameters(found: &Params<'_, '_>) -> Parameters {
    let decoded = found.iter().map(|(name, text)| match percent_decode_str(text).decode_utf8() {
        Ok(text) => Ok((name.to_owned(), text.into_owned())),
        Err(error) => Err(not_found(&format!("the {name} in the path is no UTF-8: {error}"))),
    });
    decoded.collect()
}

fn without_body(response: Response) -> Response {
    let length = response.body().size_hint().exact();
    let mut response = response.map(|_body| Body::empty());
    if let Some(length) = length {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert(HeaderValue::from(length));
    }
    response
}
