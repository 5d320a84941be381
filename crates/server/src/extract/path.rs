//! Path parameters.

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use provost_core::id::name::Namespace;
use provost_core::scheduling::ExecutionClassKey;
use provost_core::usage::limits::SESSION_CHARS_MAX;
use provost_core::{
    ApprovalId, DeliveryId, InputId, RunId, TaskId, TokenId, WebhookDeliveryId, WebhookId,
};
use provost_store::query::explain_facts::Subject;
use schemars::SchemaGenerator;
use serde_json::{Value, json};

use super::DescribeArgument;
use crate::app::App;
use crate::error::{self, ApiError};
use crate::router::{Endpoint, PathParameter, schema_of};

/// A path parameter. Invalid text results in 404.
pub(crate) struct ApiPath<T>(pub(crate) T);

/// Type of a path parameter.
pub(crate) trait PathValue: Sized + Send {
    /// Name of the parameter, such as `run` in `/runs/{run}`.
    const NAME: &'static str;

    /// Parses a value.
    fn parse(text: &str) -> Result<Self, String>;

    /// Returns the JSON Schema of a value.
    fn schema(schemas: &mut SchemaGenerator) -> Value;
}

impl<T: PathValue> DescribeArgument for ApiPath<T> {
    fn describe(endpoint: &mut Endpoint) {
        endpoint.path_parameters.push(PathParameter { name: T::NAME, schema: T::schema });
    }
}

impl<T: PathValue> FromRequestParts<App> for ApiPath<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let name = T::NAME;
        let text = value(parts, name).await?;
        let text = text.ok_or_else(|| error::internal(&format!("the path has no `{name}`")))?;
        let not_found = |error| error::not_found(format!("there is no such {name}: {error}"));
        Ok(Self(T::parse(&text).map_err(not_found)?))
    }
}

/// Returns the namespace of the path. `None` if the path has none.
pub(crate) async fn namespace(parts: &mut Parts) -> Result<Option<Namespace>, ApiError> {
    let text = value(parts, "namespace").await?;
    let parsed = text.map(|text| text.parse::<Namespace>()).transpose();
    Ok(parsed.map_err(|error| error::not_found(error.to_string()))?)
}

/// Returns the decoded text of a path parameter. `None` if the route has no such parameter. Text that is not UTF-8
/// results in 404.
async fn value(parts: &mut Parts, name: &str) -> Result<Option<String>, ApiError> {
    let values = RawPathParams::from_request_parts(parts, &()).await;
    let values = values.map_err(|error| error::not_found(error.body_text()))?;
    let found = values.iter().find(|(known, _)| *known == name);
    Ok(found.map(|(_, text)| text.to_owned()))
}

macro_rules! ids {
    ($($name:literal: $id:ty;)+) => {$(
        impl PathValue for $id {
            const NAME: &'static str = $name;

            fn parse(text: &str) -> Result<Self, String> {
                text.parse::<$id>().map_err(|error| error.to_string())
            }

            fn schema(schemas: &mut SchemaGenerator) -> Value {
                schema_of::<$id>(schemas)
            }
        }
    )+};
}

ids! {
    "run": RunId;
    "task": TaskId;
    "approval": ApprovalId;
    "delivery": DeliveryId;
    "input": InputId;
    "token": TokenId;
    "webhook": WebhookId;
    "post": WebhookDeliveryId;
}

macro_rules! names {
    ($($name:literal: $type:ident;)+) => {$(
        #[doc = concat!("The `", $name, "` of a path.")]
        pub(crate) struct $type(pub(crate) String);

        impl PathValue for $type {
            const NAME: &'static str = $name;

            fn parse(text: &str) -> Result<Self, String> {
                Ok(Self(text.to_owned()))
            }

            fn schema(_: &mut SchemaGenerator) -> Value {
                name_schema()
            }
        }
    )+};
}

names! {
    "agent": AgentName;
    "request": RequestName;
    "schedule": ScheduleName;
    "session": SessionKey;
}

macro_rules! parsed_names {
    ($($name:literal: $type:ty;)+) => {$(
        impl PathValue for $type {
            const NAME: &'static str = $name;

            fn parse(text: &str) -> Result<Self, String> {
                text.parse::<$type>().map_err(|error| error.to_string())
            }

            fn schema(_: &mut SchemaGenerator) -> Value {
                name_schema()
            }
        }
    )+};
}

parsed_names! {
    "class": ExecutionClassKey;
    "id": Subject;
}

/// Returns the schema of a name. A name that does not exist results in 404, so the schema restricts only the length.
fn name_schema() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": SESSION_CHARS_MAX})
}
