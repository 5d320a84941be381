//! Audit records.

use axum::Json;
use axum::extract::State;
use provost_api::{AuditQuery, AuditRecord, DateTime, Page, Problem};
use provost_store::query;
use provost_store::table::governance::audit::{AuditFilter, AuditRow};

use crate::app::App;
use crate::convert;
use crate::extract::{Admin, ApiQuery, Auth, limit};
use crate::response::ApiResult;

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Admin>,
    ApiQuery(params): ApiQuery<AuditQuery>,
) -> ApiResult<Json<Page<AuditRecord>>> {
    let limit = limit(params.limit)?;
    let filter = AuditFilter {
        run: params.run,
        resource: params.resource,
        outcome: params.outcome,
        before: convert::page::cursor(params.cursor.as_deref())?,
    };
    let rows =
        query::records::list_audit(app.engine().store(), &auth.namespace, filter, limit).await?;
    Ok(Json(convert::page::from_rows(rows, limit, record, |record| record.id.to_string())?))
}

fn record(row: AuditRow) -> Result<AuditRecord, Problem> {
    let AuditRow { id, at, action, outcome, resource, run_id, body, .. } = row;
    let record = convert::parse_json(&body)?;
    Ok(AuditRecord { id, at: DateTime(at), action, outcome, resource, run: run_id, record })
}
