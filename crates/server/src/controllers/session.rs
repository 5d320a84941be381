//! Conversations: which there are, what was said, how messages wait.

use http::Method;
use provost_api::{Page, Paging, Problem, Scope, Session, SessionList, SessionMessage};
use provost_core::work::QueueOverride;
use provost_store::row::session::SessionFilter;

use super::within;
use crate::convert;
use crate::error::of_engine;
use crate::input::{Cx, Json, Query, limit};
use crate::operation::Operation;
use crate::output::Answer;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            (Method::GET, within!("sessions")),
            "listSessions",
            "Sessions by id, the last first",
            list,
        ),
        Operation::new(
            (Method::GET, within!("sessions/{session}")),
            "getSession",
            "A session as it stands",
            get,
        ),
        Operation::new(
            (Method::GET, within!("sessions/{session}/messages")),
            "listMessages",
            "What was said in a session, in order",
            messages,
        ),
        Operation::new(
            (Method::PUT, within!("sessions/{session}/queue")),
            "setSessionQueue",
            "Set how messages wait in a session, as far as it differs from its agent",
            set_queue,
        )
        .scope(Scope::Write),
    ]
}

async fn list(cx: Cx, Query(asked): Query<SessionList>) -> Result<Answer<Page<Session>>, Problem> {
    let filter = SessionFilter { agent: asked.agent, key: asked.key, before: asked.cursor };
    let page = cx.app.engine().sessions(&cx.namespace, filter, limit(asked.limit)?).await;
    Ok(Answer(convert::page(page.map_err(of_engine)?, convert::session)?))
}

async fn get(cx: Cx, (): ()) -> Result<Answer<Session>, Problem> {
    let row = cx.app.engine().session_row(&cx.namespace, cx.parameter("session")).await;
    Ok(Answer(convert::session(row.map_err(of_engine)?)?))
}

async fn messages(
    cx: Cx,
    Query(asked): Query<Paging>,
) -> Result<Answer<Page<SessionMessage>>, Problem> {
    let from = asked.cursor.as_deref().map(convert::place).transpose()?;
    let (session, limit) = (cx.parameter("session"), limit(asked.limit)?);
    let page = cx.app.engine().session_messages(&cx.namespace, session, from, limit).await;
    let page = page.map_err(of_engine)?;
    let items = page.items.into_iter().map(convert::session_message).collect();
    Ok(Answer(Page { items, next: page.next.map(convert::place_text) }))
}

async fn set_queue(cx: Cx, Json(queue): Json<QueueOverride>) -> Result<Answer<Session>, Problem> {
    let (engine, session) = (cx.app.engine(), cx.parameter("session"));
    engine.set_session_queue(&cx.namespace, session, queue).await.map_err(of_engine)?;
    let row = engine.session_row(&cx.namespace, session).await.map_err(of_engine)?;
    Ok(Answer(convert::session(row)?))
}
