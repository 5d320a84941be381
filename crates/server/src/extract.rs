//! Arguments of handlers, and what each of them says about its operation.

mod auth;
mod header;
mod json;
mod path;
mod query;

use provost_core::text::truncate_chars;
use std::fmt::Display;

use axum::extract::State;
use provost_api::Problem;

pub(crate) use self::auth::{Admin, Approve, Auth, Authenticated, Authorized, Public, Read, Write};
pub(crate) use self::header::{CallbackToken, IdempotencyKey, IfMatch, LastEventId};
pub(crate) use self::json::ApiJson;
pub(crate) use self::path::{AgentName, ApiPath, RequestName, ScheduleName, SessionKey, namespace};
pub(crate) use self::query::{ApiQuery, limit, refuse_query};
use crate::app::App;
use crate::error;
use crate::router::{Endpoint, SchemaFn};

/// What an operation reads besides its path and headers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Input {
    /// Nothing: a query or a body is refused.
    Nothing,
    /// A query.
    Query(SchemaFn),
    /// A JSON body; a query is refused.
    Json(SchemaFn),
}

/// An argument of a handler.
pub(crate) trait DescribeArgument {
    /// Adds what the argument means for the operation.
    fn describe(endpoint: &mut Endpoint);
}

impl DescribeArgument for State<App> {
    fn describe(_: &mut Endpoint) {}
}

/// What cannot be read, with its place. Of what a caller sent only a little is repeated.
fn unreadable(whole: &str, path: &serde_path_to_error::Path, error: &dyn Display) -> Problem {
    let (path, error) = (path.to_string(), error.to_string());
    // A field that is missing, or there twice, is named in the text only.
    let named = ["missing field `", "duplicate field `"].iter().find_map(|start| {
        error.strip_prefix(start)?.split_once('`').map(|(name, _)| name.to_owned())
    });
    let field = match (path.as_str(), named) {
        (".", Some(name)) => name,
        (".", None) => whole.to_owned(),
        (_, Some(name)) if !path.ends_with(&name) => format!("{path}.{name}"),
        _ => path,
    };
    error::invalid(&truncate_chars(&field, 200), &truncate_chars(&error, 500))
}
