//! From errors to problem documents.

use axum::response::Response;
use http::StatusCode;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use provost_api::Problem;
use provost_core::ErrorKind;
use provost_core::work::WorkError;
use provost_engine::EngineError;

use crate::output::json;
use crate::router::RequestId;

/// A request of which one part is wrong.
pub(crate) fn invalid(field: &str, problem: &str) -> Problem {
    Problem::new(ErrorKind::Invalid, "invalid", format!("{field}: {problem}")).field(field, problem)
}

/// Something that cannot happen.
pub(crate) fn bug(error: &dyn std::fmt::Display) -> Problem {
    tracing::error!(%error, "defect");
    Problem::new(ErrorKind::Bug, "bug", "a defect of the server; its log says more")
}

/// What the engine says. The text of a defect stays in the log: it may name what is stored.
pub(crate) fn of_engine(error: EngineError) -> Problem {
    match error {
        EngineError::Work(WorkError::Invalid { path, problem, fix }) => {
            invalid(&field_of(&path), &format!("{problem}; {fix}"))
        }
        EngineError::Work(WorkError::Policy(ref refused)) => {
            let (field, why) =
                (field_of(&refused.path), format!("{}; {}", refused.problem, refused.fix));
            Problem::from(error.info()).field(field, why)
        }
        EngineError::Work(WorkError::TooLarge { ref path, bytes, max }) => {
            let why = format!("it has {bytes} bytes, {max} are allowed");
            Problem::from(error.info()).field(field_of(path), why)
        }
        // The caller named the revision in `If-Match`.
        EngineError::Work(WorkError::Stale { .. }) => Problem::from(error.info()).status(412),
        EngineError::Bug(_) | EngineError::Unreadable(_) => bug(&error),
        error => error.info().into(),
    }
}

/// What a place in the engine's words is called on the wire.
fn field_of(path: &str) -> String {
    let places = [
        ("schedule.command.", "task."),
        ("schedule.id", "schedule"),
        ("schedule.", ""),
        ("command.", ""),
        ("input.", ""),
        ("budget.", ""),
        ("answer.", ""),
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

/// A problem as an answer.
pub(crate) fn answer(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(status, problem).unwrap_or_default();
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(Problem::MEDIA_TYPE));
    if problem.status == 401 {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(wait) = problem.retry_after_ms {
        headers.insert(RETRY_AFTER, HeaderValue::from(wait.div_ceil(1000)));
    }
    response
}

/// A path that is there, with another method.
pub(crate) fn method_not_allowed(allowed: &str, id: &RequestId) -> Response {
    let detail = format!("this path takes {allowed}");
    let mut problem = Problem::new(ErrorKind::Invalid, "method_not_allowed", detail).status(405);
    problem.request_id = Some(id.text().to_owned());
    let mut response = answer(&problem);
    if let Ok(allowed) = HeaderValue::from_str(allowed) {
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}

/// The server stops and answers nobody any more.
pub(crate) fn draining() -> Problem {
    let detail = "the server stops: ask again in a moment";
    let mut problem = Problem::new(ErrorKind::Unavailable, "draining", detail);
    problem.retry_after_ms = Some(1_000);
    problem
}
