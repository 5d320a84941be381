//! Audit records: who did what.

use axum::Json;
use axum::extract::State;
use provost_api::{AuditList, AuditRecord, Page, Problem, Time};
use provost_engine::EngineError;
use provost_store::table::governance::audit::{self, AuditFilter, AuditRow};

use crate::app::App;
use crate::convert;
use crate::extract::{Admin, ApiQuery, Auth, limit};
use crate::response::ApiResult;

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Admin>,
    ApiQuery(asked): ApiQuery<AuditList>,
) -> ApiResult<Json<Page<AuditRecord>>> {
    let limit = limit(asked.limit)?;
    let filter = AuditFilter {
        run: asked.run,
        resource: asked.resource,
        outcome: asked.outcome,
        before: convert::page::cursor(asked.cursor.as_deref())?,
    };
    let namespace = auth.namespace;
    let read = app
        .engine()
        .store()
        .read(move |tx| Ok::<_, EngineError>(audit::list(tx, namespace.as_str(), &filter, limit)?));
    let rows = read.await?;
    Ok(Json(convert::page::from_rows(rows, limit, record, |record| record.id.to_string())?))
}

fn record(row: AuditRow) -> Result<AuditRecord, Problem> {
    let AuditRow { id, at, action, outcome, resource, run_id, body, .. } = row;
    let record = convert::stored(&body)?;
    Ok(AuditRecord { id, at: Time(at), action, outcome, resource, run: run_id, record })
}
