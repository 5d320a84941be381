//! Sessions: their messages and input queues.

use axum::Json;
use axum::extract::State;
use provost_api::{NewSession, Page, PageQuery, Session, SessionMessage, SessionQuery};
use provost_core::scheduling::InputQueueOverride;
use provost_store::query;
use provost_store::table::work::session::SessionFilter;

use crate::app::App;
use crate::convert;
use crate::extract::{ApiJson, ApiPath, ApiQuery, Auth, Read, SessionKey, Write, limit};
use crate::response::{ApiResult, Created};

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiQuery(params): ApiQuery<SessionQuery>,
) -> ApiResult<Json<Page<Session>>> {
    let filter = SessionFilter { agent: params.agent, key: params.key, before: params.cursor };
    let page =
        query::session::list(app.engine().store(), &auth.namespace, filter, limit(params.limit)?)
            .await;
    Ok(Json(convert::page::map(page?, convert::session::view)?))
}

pub(crate) async fn create(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiJson(new): ApiJson<NewSession>,
) -> ApiResult<Created<Session>> {
    let new = provost_engine::NewSession { key: new.key, fresh: new.fresh };
    let created = app.engine().sessions().create(&auth.namespace, new).await?;
    Ok(Created { is_new: created.is_new, value: convert::session::view(created.row)? })
}

pub(crate) async fn get(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(SessionKey(session)): ApiPath<SessionKey>,
) -> ApiResult<Json<Session>> {
    let row = query::session::get(app.engine().store(), &auth.namespace, &session).await;
    Ok(Json(convert::session::view(row?)?))
}

pub(crate) async fn messages(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(SessionKey(session)): ApiPath<SessionKey>,
    ApiQuery(params): ApiQuery<PageQuery>,
) -> ApiResult<Json<Page<SessionMessage>>> {
    let from = params.cursor.as_deref().map(convert::session::parse_cursor).transpose()?;
    let limit = limit(params.limit)?;
    let page =
        query::session::messages(app.engine().store(), &auth.namespace, &session, from, limit)
            .await?;
    let items = page.items.into_iter().map(convert::session::message).collect();
    Ok(Json(Page { items, next: page.next.map(convert::session::format_cursor) }))
}

pub(crate) async fn set_queue(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(SessionKey(session)): ApiPath<SessionKey>,
    ApiJson(queue): ApiJson<InputQueueOverride>,
) -> ApiResult<Json<Session>> {
    let engine = app.engine();
    engine.sessions().set_queue(&auth.namespace, &session, queue).await?;
    let row = query::session::get(engine.store(), &auth.namespace, &session).await?;
    Ok(Json(convert::session::view(row)?))
}
