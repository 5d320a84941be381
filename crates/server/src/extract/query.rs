//! Query parameters.

use std::error::Error;

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query};
use http::Uri;
use http::request::Parts;
use provost_api::{LIMIT_DEFAULT, LIMIT_MAX, Problem};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{DescribeArgument, Input, deserialize_error};
use crate::app::App;
use crate::error::{self, ApiError};
use crate::router::Endpoint;

/// Query parameters. Unknown parameters are rejected.
pub(crate) struct ApiQuery<T>(pub(crate) T);

impl<T: JsonSchema> DescribeArgument for ApiQuery<T> {
    fn describe(endpoint: &mut Endpoint) {
        endpoint.input = Input::Query(query_schema::<T>);
    }
}

/// Returns the schema of an object whose properties are the query parameters.
fn query_schema<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Value {
    T::json_schema(schemas).to_value()
}

impl<T: DeserializeOwned> FromRequestParts<App> for ApiQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        Ok(Self(parse_query(&parts.uri)?))
    }
}

/// Parses the query parameters.
fn parse_query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    Query::try_from_uri(uri).map(|Query(value)| value).map_err(|rejection| to_problem(&rejection))
}

/// Converts a rejection to a problem. Its causes contain the path of the invalid parameter.
fn to_problem(rejection: &QueryRejection) -> Problem {
    type Located = serde_path_to_error::Error<serde::de::value::Error>;
    let mut cause: Option<&(dyn Error + 'static)> = Some(rejection);
    while let Some(error) = cause {
        if let Some(located) = error.downcast_ref::<Located>() {
            return deserialize_error("query", located.path(), located.inner());
        }
        cause = error.source();
    }
    error::invalid("query", &rejection.body_text())
}

/// Returns an error if the request of an operation without query parameters has some.
pub(crate) fn reject_query(uri: &Uri) -> Result<(), Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Empty {}

    if uri.query().is_none_or(str::is_empty) { Ok(()) } else { parse_query(uri).map(|Empty {}| ()) }
}

/// Returns the page size, or the default if it is absent. Returns an error if it is out of range.
pub(crate) fn limit(limit: Option<u64>) -> Result<u64, Problem> {
    match limit.unwrap_or(LIMIT_DEFAULT) {
        limit @ 1..=LIMIT_MAX => Ok(limit),
        _ => Err(error::invalid("limit", &format!("use 1 to {LIMIT_MAX}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Paging {
        #[expect(dead_code, reason = "the test needs only its type")]
        limit: Option<u64>,
    }

    #[test]
    fn a_wrong_value_is_named_by_its_field() {
        for (query, field) in
            [("limit=x", "limit"), ("other=1", "other"), ("limit=1&limit=2", "limit")]
        {
            let uri: Uri = format!("/?{query}").parse().unwrap();
            assert_eq!(parse_query::<Paging>(&uri).unwrap_err().fields[0].field, field, "{query}");
        }
    }
}
