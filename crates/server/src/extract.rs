//! Arguments of handlers, and their documentation in the OpenAPI document.

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
pub(crate) use self::query::{ApiQuery, limit, reject_query};
use crate::app::App;
use crate::error;
use crate::router::{Endpoint, SchemaFn};

/// Input of an operation in addition to its path and headers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Input {
    /// No input. A query or a body is rejected.
    None,
    /// Query parameters.
    Query(SchemaFn),
    /// A JSON body. A query is rejected.
    Json(SchemaFn),
}

/// An argument of a handler.
pub(crate) trait DescribeArgument {
    /// Adds the argument to the description of the operation.
    fn describe(endpoint: &mut Endpoint);
}

impl DescribeArgument for State<App> {
    fn describe(_: &mut Endpoint) {}
}

/// Returns the problem for a value that cannot be deserialized. The message contains only the beginning of the value.
fn deserialize_error(root: &str, path: &serde_path_to_error::Path, error: &dyn Display) -> Problem {
    let (path, error) = (path.to_string(), error.to_string());
    // Only the message contains the name of a missing or duplicate field.
    let named = ["missing field `", "duplicate field `"].iter().find_map(|start| {
        error.strip_prefix(start)?.split_once('`').map(|(name, _)| name.to_owned())
    });
    let field = match (path.as_str(), named) {
        (".", Some(name)) => name,
        (".", None) => root.to_owned(),
        (_, Some(name)) if !path.ends_with(&name) => format!("{path}.{name}"),
        _ => path,
    };
    error::invalid(&truncate_chars(&field, 200), &truncate_chars(&error, 500))
}
