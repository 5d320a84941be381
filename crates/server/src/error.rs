//! From errors to problem documents.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use provost_api::Problem;
use provost_core::ErrorKind;
use provost_core::lifecycle::RequestError;
use provost_engine::EngineError;
use provost_store::query::QueryError;

/// Why an operation failed. The middleware writes the problem, because only it knows the id of the request.
#[derive(Debug)]
pub(crate) struct ApiError(Problem);

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        Self(of_engine(error))
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

/// A request of which one part is wrong.
pub(crate) fn invalid(field: &str, problem: &str) -> Problem {
    Problem::new(ErrorKind::Invalid, "invalid", format!("{field}: {problem}")).field(field, problem)
}

/// Something that cannot happen.
pub(crate) fn bug(error: &dyn std::fmt::Display) -> Problem {
    tracing::error!(%error, "defect");
    Problem::new(ErrorKind::Bug, "bug", "a defect of the server; its log says more")
}

/// Translates an error of the engine. The text of a defect stays in the log: it may name what is stored.
pub(crate) fn of_engine(error: EngineError) -> Problem {
    match error {
        EngineError::Request(RequestError::Invalid { path, problem, fix }) => {
            invalid(&field_of(&path), &format!("{problem}; {fix}"))
        }
        EngineError::Request(RequestError::Policy(ref refused)) => {
            let (field, why) =
                (field_of(&refused.path), format!("{}; {}", refused.problem, refused.fix));
            Problem::from(error.info()).field(field, why)
        }
        EngineError::Request(RequestError::TooLarge { ref path, bytes, max }) => {
            let why = format!("it has {bytes} bytes, {max} are allowed");
            Problem::from(error.info()).field(field_of(path), why)
        }
        // The caller named the revision in `If-Match`.
        EngineError::Request(RequestError::RevisionConflict { .. }) => {
            Problem::from(error.info()).status(412)
        }
        EngineError::Bug(_) | EngineError::Unreadable(_) => bug(&error),
        error => error.info().into(),
    }
}

/// Translates the place of an error from the engine's names to those of the wire.
fn field_of(path: &str) -> String {
    let places = [
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
        places.iter().find_map(|(from, to)| Some(format!("{to}{}", path.strip_prefix(from)?)));
    let field = found.unwrap_or_else(|| path.to_owned());
    match field.as_str() {
        "session_id" | "run_id" => field.trim_end_matches("_id").to_owned(),
        _ => field,
    }
}

/// An id or a name that leads nowhere.
pub(crate) fn not_found(detail: String) -> Problem {
    Problem::new(ErrorKind::NotFound, "not_found", detail)
}

/// The server stops.
pub(crate) fn draining() -> Problem {
    let detail = "the server stops: ask again in a moment";
    let mut problem = Problem::new(ErrorKind::Unavailable, "draining", detail);
    problem.retry_after_ms = Some(1_000);
    problem
}
