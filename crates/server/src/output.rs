//! What comes out of an operation.

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use http::header::{CONTENT_TYPE, ETAG, HeaderValue};
use provost_api::Problem;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;

use crate::error;

/// Bytes that many answers have room in.
const BODY_USUAL: usize = 256;

/// An answer, for the document.
#[derive(Debug)]
pub(crate) struct OutputDoc {
    /// The successes: status, media type and schema.
    pub(crate) answers: Vec<(u16, Option<(&'static str, Value)>)>,
    /// True if it has an `ETag`.
    pub(crate) is_tagged: bool,
}

impl OutputDoc {
    /// An answer without an `ETag`.
    pub(crate) fn plain(answers: Vec<(u16, Option<(&'static str, Value)>)>) -> Self {
        Self { answers, is_tagged: false }
    }
}

/// What an operation gives.
pub(crate) trait Output {
    /// As an answer.
    fn answer(self) -> Result<Response, Problem>;
    /// Describes it.
    fn describe(schemas: &mut SchemaGenerator) -> OutputDoc;
}

/// A JSON answer.
pub(crate) struct Answer<T>(pub(crate) T);

impl<T: Serialize + JsonSchema> Output for Answer<T> {
    fn answer(self) -> Result<Response, Problem> {
        json(StatusCode::OK, &self.0)
    }

    fn describe(schemas: &mut SchemaGenerator) -> OutputDoc {
        OutputDoc::plain(vec![(200, schema::<T>(schemas))])
    }
}

/// Something that was made: 201, or 200 if it was there before.
pub(crate) struct Made<T> {
    pub(crate) what: T,
    pub(crate) new: bool,
}

impl<T: Serialize + JsonSchema> Output for Made<T> {
    fn answer(self) -> Result<Response, Problem> {
        json(if self.new { StatusCode::CREATED } else { StatusCode::OK }, &self.what)
    }

    fn describe(schemas: &mut SchemaGenerator) -> OutputDoc {
        let schema = schema::<T>(schemas);
        OutputDoc::plain(vec![(200, schema.clone()), (201, schema)])
    }
}

/// Something with a revision, which is its ETag.
pub(crate) struct Tagged<T> {
    pub(crate) what: T,
    pub(crate) revision: u64,
}

impl<T: Serialize + JsonSchema> Output for Tagged<T> {
    fn answer(self) -> Result<Response, Problem> {
        let mut response = json(StatusCode::OK, &self.what)?;
        let tag = HeaderValue::from_str(&format!("\"{}\"", self.revision));
        response.headers_mut().insert(ETAG, tag.map_err(|error| error::bug(&error))?);
        Ok(response)
    }

    fn describe(schemas: &mut SchemaGenerator) -> OutputDoc {
        OutputDoc { answers: vec![(200, schema::<T>(schemas))], is_tagged: true }
    }
}

/// Nothing: it is done.
pub(crate) struct Done;

impl Output for Done {
    fn answer(self) -> Result<Response, Problem> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        Ok(response)
    }

    fn describe(_: &mut SchemaGenerator) -> OutputDoc {
        OutputDoc::plain(vec![(204, None)])
    }
}

fn schema<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Option<(&'static str, Value)> {
    Some(("application/json", schemas.subschema_for::<T>().to_value()))
}

pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Result<Response, Problem> {
    let mut bytes = Vec::with_capacity(BODY_USUAL);
    serde_json::to_writer(&mut bytes, body).map_err(|error| error::bug(&error))?;
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
