//! Declared tools, answers of tools that come later, who did what, and what was used.

use http::Method;
use provost_api::{
    AuditList, AuditRecord, Capabilities, DeclaredTool, Page, Paging, Problem, Scope, Time,
    UsageRecord,
};
use provost_core::contract::ToolResponse;
use provost_core::{Env, ErrorKind};
use provost_engine::EngineError;
use provost_store::row::audit::{self, AuditFilter, AuditRow};
use provost_store::row::meter::{self, MeterRow};

use super::within;
use crate::convert;
use crate::error::{self, of_engine};
use crate::input::{Cx, Json, Query, limit};
use crate::operation::Operation;
use crate::output::{Answer, Done};
use crate::tool_catalog::Undelivered;

/// The header that proves that an answer is to this request.
const CALLBACK_TOKEN: &str = "x-tool-callback-token";

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new((Method::GET, within!("tools")), "listTools", "Declared tools", list),
        Operation::new(
            (Method::GET, within!("audit")),
            "listAudit",
            "Who did what, newest first",
            audited,
        )
        .scope(Scope::Admin),
        Operation::new(
            (Method::GET, within!("usage")),
            "listUsage",
            "What was used, newest first",
            used,
        )
        .scope(Scope::Admin),
        Operation::new(
            (Method::GET, "/v1/capabilities"),
            "getCapabilities",
            "What the server can do",
            capabilities,
        )
        .known(),
        Operation::new(
            (Method::POST, "/v1/tool-callbacks/{request}"),
            "deliverToolAnswer",
            "Hand in the answer of a tool that comes later; the header X-Tool-Callback-Token is that of the request",
            deliver,
        )
        .open(),
    ]
}

async fn list(cx: Cx, Query(asked): Query<Paging>) -> Result<Answer<Page<DeclaredTool>>, Problem> {
    let tools = cx.app.tools().map(|house| house.tools(cx.namespace.as_str())).unwrap_or_default();
    Ok(Answer(convert::cut(tools, &asked, |tool| tool.name.clone())?))
}

async fn capabilities(cx: Cx, (): ()) -> Result<Answer<Capabilities>, Problem> {
    let nothing =
        || Capabilities { generated_at: Time(Env::system().now()), capabilities: Vec::new() };
    Ok(Answer(cx.app.tools().map_or_else(nothing, |house| house.capabilities())))
}

async fn deliver(cx: Cx, Json(response): Json<ToolResponse>) -> Result<Done, Problem> {
    let (kind, code, why) = match cx.app.tools() {
        None => (ErrorKind::NotFound, "not_found", Undelivered::Unknown),
        Some(house) => {
            let token = cx.header(CALLBACK_TOKEN)?.unwrap_or_default();
            match house.deliver(cx.parameter("request"), token, response) {
                Ok(()) => return Ok(Done),
                Err(why @ Undelivered::Unknown) => (ErrorKind::NotFound, "not_found", why),
                Err(why @ Undelivered::Token) => (ErrorKind::Denied, "denied", why),
                Err(why @ Undelivered::Mismatch) => (ErrorKind::Invalid, "invalid", why),
            }
        }
    };
    Err(Problem::new(kind, code, why.to_string()))
}

async fn audited(
    cx: Cx,
    Query(asked): Query<AuditList>,
) -> Result<Answer<Page<AuditRecord>>, Problem> {
    let limit = limit(asked.limit)?;
    let filter = AuditFilter {
        run: asked.run,
        resource: asked.resource,
        outcome: asked.outcome,
        before: convert::cursor(asked.cursor.as_deref())?,
    };
    let namespace = cx.namespace.clone();
    let found =
        cx.app.engine().store().read(move |tx| {
            Ok::<_, EngineError>(audit::list(tx, namespace.as_str(), &filter, limit)?)
        });
    let rows = found.await.map_err(of_engine)?;
    Ok(Answer(convert::page_of(rows, limit, told, |record| record.id.to_string())?))
}

fn told(row: AuditRow) -> Result<AuditRecord, Problem> {
    let AuditRow { id, at, action, outcome, resource, run_id, body, .. } = row;
    let record = serde_json::from_str(&body).map_err(|error| error::bug(&error))?;
    Ok(AuditRecord { id, at: Time(at), action, outcome, resource, run: run_id, record })
}

async fn used(cx: Cx, Query(asked): Query<Paging>) -> Result<Answer<Page<UsageRecord>>, Problem> {
    let limit = limit(asked.limit)?;
    let before = convert::cursor(asked.cursor.as_deref())?;
    let namespace = cx.namespace.clone();
    let found =
        cx.app.engine().store().read(move |tx| {
            Ok::<_, EngineError>(meter::list(tx, namespace.as_str(), before, limit)?)
        });
    let tell = |row: MeterRow| {
        let MeterRow { id, at, kind, agent, run_id, body, .. } = row;
        let record = serde_json::from_str(&body).map_err(|error| error::bug(&error))?;
        Ok(UsageRecord { id, at: Time(at), kind, agent, run: run_id, record })
    };
    let rows = found.await.map_err(of_engine)?;
    Ok(Answer(convert::page_of(rows, limit, tell, |record| record.id.to_string())?))
}
