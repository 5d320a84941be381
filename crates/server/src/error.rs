//! Conversion of errors to problem documents.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use provost_api::Problem;
use provost_core::ErrorKind;
use provost_core::lifecycle::RequestError;
use provost_engine::EngineError;
use provost_store::StoreError;
use provost_store::query::QueryError;

/// Error of an operation. The middleware serializes the problem, because it adds the id of the request.
#[derive(Debug)]
pub(crate) struct ApiError(Problem);

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        Self(from_engine(error))
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        EngineError::from(error).into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status);
        let mut response = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR).into_response();
        response.extensions_mut().insert(self.0);
        response
    }
}

/// Returns the problem for an invalid field.
pub(crate) fn invalid(field: &str, problem: &str) -> Problem {
    Problem::new(ErrorKind::Invalid, "invalid", format!("{field}: {problem}")).field(field, problem)
}

/// Logs a defect of the server, and returns a problem without details.
pub(crate) fn internal(error: &dyn std::fmt::Display) -> Problem {
    tracing::error!(%error, "defect");
    Problem::new(ErrorKind::Bug, "bug", "internal error: see the log of the server")
}

/// Converts an error of the engine. The text of an internal error is only logged, because it can contain stored data.
pub(crate) fn from_engine(error: EngineError) -> Problem {
    match error {
        EngineError::Request(RequestError::Invalid { path, problem, fix }) => {
            invalid(&api_field(&path), &format!("{problem}; {fix}"))
        }
        EngineError::Request(RequestError::Policy(ref refused)) => {
            let (field, problem) =
                (api_field(&refused.path), format!("{}; {}", refused.problem, refused.fix));
            Problem::from(error.info()).field(field, problem)
        }
        EngineError::Request(RequestError::TooLarge { ref path, bytes, max }) => {
            let problem = format!("it has {bytes} bytes; the maximum is {max}");
            Problem::from(error.info()).field(api_field(path), problem)
        }
        // The caller named the revision in `If-Match`.
        EngineError::Request(RequestError::RevisionConflict { .. }) => {
            Problem::from(error.info()).status(412)
        }
        EngineError::Bug(_)
        | EngineError::Unreadable(_)
        | EngineError::Store(StoreError::Unreadable { .. }) => internal(&error),
        error => error.info().into(),
    }
}

/// Converts the path of a field from the names of the engine to the names of the API.
fn api_field(path: &str) -> String {
    let prefixes = [
        ("schedule.command.", "task."),
        ("schedule.id", "schedule"),
        ("schedule.", ""),
        ("command.", ""),
        ("input.", ""),
        ("budget.", ""),
        ("answer.", ""),
        ("session.", ""),
        ("agent.name", "name"),
        ("agent.", "config."),
    ];
    let found =
        prefixes.iter().find_map(|(from, to)| Some(format!("{to}{}", path.strip_prefix(from)?)));
    let field = found.unwrap_or_else(|| path.to_owned());
    match field.as_str() {
        "session_id" | "run_id" => field.trim_end_matches("_id").to_owned(),
        _ => field,
    }
}

/// Returns the problem for an id or a name that does not exist.
pub(crate) fn not_found(detail: String) -> Problem {
    Problem::new(ErrorKind::NotFound, "not_found", detail)
}

/// Returns the problem for requests during a shutdown.
pub(crate) fn draining() -> Problem {
    let detail = "the server is shutting down: try again in a moment";
    let mut problem = Problem::new(ErrorKind::Unavailable, "draining", detail);
    problem.retry_after_ms = Some(1_000);
    problem
}
