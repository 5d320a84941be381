//! API tokens. A caller with the scope `admin` can access tokens whose namespaces its own token covers.

use axum::Json;
use axum::extract::State;
use provost_api::{CreatedToken, NewToken, Page, PageQuery, Token};
use provost_core::TokenId;

use crate::app::App;
use crate::auth;
use crate::convert;
use crate::extract::{Admin, ApiJson, ApiPath, ApiQuery, Auth, limit};
use crate::response::{ApiResult, Created};

pub(crate) async fn create(
    State(app): State<App>,
    auth: Auth<Admin>,
    ApiJson(new): ApiJson<NewToken>,
) -> ApiResult<Created<CreatedToken>> {
    let value = auth::create(&app, &auth.principal, new).await?;
    Ok(Created { value, is_new: true })
}

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Admin>,
    ApiQuery(params): ApiQuery<PageQuery>,
) -> ApiResult<Json<Page<Token>>> {
    let after = convert::page::cursor(params.cursor.as_deref())?;
    Ok(Json(auth::list(&app, &auth.principal, after, limit(params.limit)?).await?))
}

pub(crate) async fn revoke(
    State(app): State<App>,
    auth: Auth<Admin>,
    ApiPath(token): ApiPath<TokenId>,
) -> ApiResult<Json<Token>> {
    Ok(Json(auth::revoke(&app, &auth.principal, token).await?))
}
