//! What goes into an operation: the caller, the path, the query, the body.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use provost_api::{LIMIT_DEFAULT, LIMIT_MAX, Problem};
use provost_core::ErrorKind;
use provost_core::work::Namespace;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::app::App;
use crate::auth::Principal;
use crate::error;
use crate::openapi::BodySchema;

/// Who calls, and where.
pub(crate) struct Cx {
    pub(crate) app: App,
    pub(crate) who: Arc<Principal>,
    pub(crate) namespace: Namespace,
    pub(crate) parameters: Vec<(&'static str, String)>,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    /// What the document says of the body.
    pub(crate) schema: Option<&'static BodySchema>,
}

impl Cx {
    /// A name in the path.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        let found = self.parameters.iter().find(|(known, _)| *known == name);
        found.map_or("", |(_, text)| text)
    }

    /// An id in the path. What is no id names nothing.
    pub(crate) fn id<T: FromStr<Err: std::fmt::Display>>(&self, name: &str) -> Result<T, Problem> {
        let text = self.parameter(name);
        text.parse().map_err(|error: T::Err| {
            Problem::new(
                ErrorKind::NotFound,
                "not_found",
                format!("there is no such {name}: {error}"),
            )
        })
    }

    /// A header as text. One that is there twice is refused: two readers could take different ones.
    pub(crate) fn header(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut values = self.headers.get_all(name).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(error::invalid(name, "send it once"));
        }
        value.to_str().map(Some).map_err(|_error| error::invalid(name, "it must be visible ASCII"))
    }

    /// The key that makes a repeat harmless: the header's, or else the body's. Two that differ are refused.
    pub(crate) fn idempotency_key(&self, body: Option<String>) -> Result<Option<String>, Problem> {
        let header = self.header("idempotency-key")?.map(str::to_owned);
        match (&header, &body) {
            (Some(header), Some(body)) if header != body => Err(error::invalid(
                "idempotency_key",
                "the header `Idempotency-Key` says another one",
            )),
            _ => Ok(header.or(body)),
        }
    }
}

/// Items of a page, checked.
pub(crate) fn limit(asked: Option<u64>) -> Result<u64, Problem> {
    match asked.unwrap_or(LIMIT_DEFAULT) {
        limit @ 1..=LIMIT_MAX => Ok(limit),
        _ => Err(error::invalid("limit", &format!("use 1 to {LIMIT_MAX}"))),
    }
}

/// What goes in, for the document.
#[derive(Debug, Default)]
pub(crate) struct InputDoc {
    /// The schema of an object whose properties are the query's.
    pub(crate) query: Option<Value>,
    /// The schema of the body.
    pub(crate) body: Option<Value>,
}

/// What an operation takes.
pub(crate) trait Input: Sized + Send + 'static {
    /// Reads it, and refuses what it does not know.
    fn read(cx: &Cx, body: Bytes) -> Result<Self, Problem>;
    /// Describes it.
    fn describe(schemas: &mut SchemaGenerator) -> InputDoc;
}

/// Nothing: a query or a body is refused.
impl Input for () {
    fn read(cx: &Cx, body: Bytes) -> Result<Self, Problem> {
        no_query(&cx.query)?;
        if body.is_empty() {
            Ok(())
        } else {
            Err(error::invalid("body", "this operation takes none"))
        }
    }

    fn describe(_: &mut SchemaGenerator) -> InputDoc {
        InputDoc::default()
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// What stands behind the question mark.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Input for Query<T> {
    fn read(cx: &Cx, _: Bytes) -> Result<Self, Problem> {
        query(&cx.query).map(Self)
    }

    fn describe(schemas: &mut SchemaGenerator) -> InputDoc {
        InputDoc { query: Some(T::json_schema(schemas).to_value()), body: None }
    }
}

/// A JSON body.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Input for Json<T> {
    fn read(cx: &Cx, body: Bytes) -> Result<Self, Problem> {
        no_query(&cx.query)?;
        require_json(&cx.headers)?;
        let value = match serde_json::from_slice(&body) {
            Ok(value) => value,
            // Only what cannot be read is read again, with an eye on where.
            Err(_) => located(&body)?,
        };
        // Reading is a little more generous than the document: a list for an object, a number for a word.
        cx.schema.map_or(Ok(()), |schema| schema.check(&body))?;
        Ok(Self(value))
    }

    fn describe(schemas: &mut SchemaGenerator) -> InputDoc {
        InputDoc { query: None, body: Some(schemas.subschema_for::<T>().to_value()) }
    }
}

/// Reads a body and says where it cannot be read.
fn located<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| unreadable("body", error.path(), error.inner()))?;
    reader.end().map_err(|error| error::invalid("body", &error.to_string()))?;
    Ok(value)
}

/// Refuses whatever stands behind the question mark.
fn no_query(text: &str) -> Result<(), Problem> {
    if text.is_empty() { Ok(()) } else { query::<Nothing>(text).map(|Nothing {}| ()) }
}

fn query<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    let pairs = serde_urlencoded::Deserializer::new(form_urlencoded::parse(text.as_bytes()));
    serde_path_to_error::deserialize(pairs)
        .map_err(|error| unreadable("query", error.path(), error.inner()))
}

/// What cannot be read, with the place of it. Of what a stranger sent only a little is repeated.
fn unreadable(whole: &str, path: &serde_path_to_error::Path, error: &dyn Display) -> Problem {
    let (path, error) = (path.to_string(), error.to_string());
    // A field that is not there, or there twice, is named in the text only.
    let named = ["missing field `", "duplicate field `"].iter().find_map(|start| {
        error.strip_prefix(start)?.split_once('`').map(|(name, _)| name.to_owned())
    });
    let field = match (path.as_str(), named) {
        (".", Some(name)) => name,
        (".", None) => whole.to_owned(),
        (_, Some(name)) if !path.ends_with(&name) => format!("{path}.{name}"),
        _ => path,
    };
    error::invalid(&beginning(&field, 200), &beginning(&error, 500))
}

fn beginning(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    match essence {
        Some(kind) if kind.eq_ignore_ascii_case("application/json") => Ok(()),
        _ => Err(error::invalid("content-type", "send `application/json`").status(415)),
    }
}
