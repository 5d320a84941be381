//! Declared tools, capabilities and results of asynchronous tool calls.

use axum::Json;
use axum::extract::State;
use provost_api::{Capabilities, DateTime, Page, PageQuery, Problem, ToolInfo};
use provost_core::contract::ToolResponse;
use provost_core::{Env, ErrorKind};

use crate::app::App;
use crate::convert;
use crate::extract::{
    ApiJson, ApiPath, ApiQuery, Auth, Authenticated, CallbackToken, Public, Read, RequestName,
};
use crate::response::{ApiResult, NoContent};
use crate::tool_service::CallbackRejection;

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiQuery(params): ApiQuery<PageQuery>,
) -> ApiResult<Json<Page<ToolInfo>>> {
    let tools = app.tools().map(|tools| tools.tools(auth.namespace.as_str())).unwrap_or_default();
    Ok(Json(convert::page::paginate(tools, &params, |tool| tool.name.clone())?))
}

pub(crate) async fn capabilities(
    State(app): State<App>,
    _: Auth<Authenticated>,
) -> ApiResult<Json<Capabilities>> {
    let empty =
        || Capabilities { generated_at: DateTime(Env::system().now()), capabilities: Vec::new() };
    Ok(Json(app.tools().map_or_else(empty, |tools| tools.capabilities())))
}

pub(crate) async fn complete_call(
    State(app): State<App>,
    _: Auth<Public>,
    ApiPath(RequestName(request)): ApiPath<RequestName>,
    CallbackToken(token): CallbackToken,
    ApiJson(response): ApiJson<ToolResponse>,
) -> ApiResult<NoContent> {
    let (kind, code, rejection) = match app.tools() {
        None => (ErrorKind::NotFound, "not_found", CallbackRejection::UnknownRequest),
        Some(tools) => match tools.complete_call(&request, &token, response) {
            Ok(()) => return Ok(NoContent),
            Err(rejection @ CallbackRejection::UnknownRequest) => {
                (ErrorKind::NotFound, "not_found", rejection)
            }
            Err(rejection @ CallbackRejection::InvalidToken) => {
                (ErrorKind::Denied, "denied", rejection)
            }
            Err(rejection @ CallbackRejection::RequestMismatch) => {
                (ErrorKind::Invalid, "invalid", rejection)
            }
        },
    };
    Err(Problem::new(kind, code, rejection.to_string()).into())
}
