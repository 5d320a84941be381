//! Declared tools, and their answers that come later.

use axum::Json;
use axum::extract::State;
use provost_api::{Capabilities, DeclaredTool, Page, Paging, Problem, Time};
use provost_core::contract::ToolResponse;
use provost_core::{Env, ErrorKind};

use crate::app::App;
use crate::convert;
use crate::extract::{
    ApiJson, ApiPath, ApiQuery, Auth, Authenticated, CallbackToken, Public, Read, RequestName,
};
use crate::response::{ApiResult, NoContent};
use crate::tool_catalog::Undelivered;

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiQuery(asked): ApiQuery<Paging>,
) -> ApiResult<Json<Page<DeclaredTool>>> {
    let tools = app.tools().map(|house| house.tools(auth.namespace.as_str())).unwrap_or_default();
    Ok(Json(convert::page::paginate(tools, &asked, |tool| tool.name.clone())?))
}

pub(crate) async fn capabilities(
    State(app): State<App>,
    _: Auth<Authenticated>,
) -> ApiResult<Json<Capabilities>> {
    let nothing =
        || Capabilities { generated_at: Time(Env::system().now()), capabilities: Vec::new() };
    Ok(Json(app.tools().map_or_else(nothing, |house| house.capabilities())))
}

pub(crate) async fn callback(
    State(app): State<App>,
    _: Auth<Public>,
    ApiPath(RequestName(request)): ApiPath<RequestName>,
    CallbackToken(token): CallbackToken,
    ApiJson(response): ApiJson<ToolResponse>,
) -> ApiResult<NoContent> {
    let (kind, code, why) = match app.tools() {
        None => (ErrorKind::NotFound, "not_found", Undelivered::Unknown),
        Some(house) => match house.deliver(&request, &token, response) {
            Ok(()) => return Ok(NoContent),
            Err(why @ Undelivered::Unknown) => (ErrorKind::NotFound, "not_found", why),
            Err(why @ Undelivered::Token) => (ErrorKind::Denied, "denied", why),
            Err(why @ Undelivered::Mismatch) => (ErrorKind::Invalid, "invalid", why),
        },
    };
    Err(Problem::new(kind, code, why.to_string()).into())
}
