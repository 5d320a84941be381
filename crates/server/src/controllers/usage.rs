//! Usage records.

use axum::Json;
use axum::extract::State;
use provost_api::{DateTime, Page, PageQuery, Problem, UsageRecord};
use provost_store::query;
use provost_store::table::governance::usage_record::UsageRecordRow;

use crate::app::App;
use crate::convert;
use crate::extract::{Admin, ApiQuery, Auth, limit};
use crate::response::ApiResult;

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Admin>,
    ApiQuery(params): ApiQuery<PageQuery>,
) -> ApiResult<Json<Page<UsageRecord>>> {
    let limit = limit(params.limit)?;
    let before = convert::page::cursor(params.cursor.as_deref())?;
    let rows =
        query::records::list_usage(app.engine().store(), &auth.namespace, before, limit).await?;
    Ok(Json(convert::page::from_rows(rows, limit, record, |record| record.id.to_string())?))
}

fn record(row: UsageRecordRow) -> Result<UsageRecord, Problem> {
    let UsageRecordRow { id, at, kind, agent, run_id, body, .. } = row;
    let record = convert::parse_json(&body)?;
    Ok(UsageRecord { id, at: DateTime(at), kind, agent, run: run_id, record })
}
