//! Usage records: what was used.

use axum::Json;
use axum::extract::State;
use provost_api::{Page, Paging, Problem, Time, UsageRecord};
use provost_engine::EngineError;
use provost_store::table::governance::usage_record::{self, MeterRow};

use crate::app::App;
use crate::convert;
use crate::extract::{Admin, ApiQuery, Auth, limit};
use crate::response::ApiResult;

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Admin>,
    ApiQuery(asked): ApiQuery<Paging>,
) -> ApiResult<Json<Page<UsageRecord>>> {
    let limit = limit(asked.limit)?;
    let before = convert::page::cursor(asked.cursor.as_deref())?;
    let namespace = auth.namespace;
    let read = app.engine().store().read(move |tx| {
        Ok::<_, EngineError>(usage_record::list(tx, namespace.as_str(), before, limit)?)
    });
    let rows = read.await?;
    Ok(Json(convert::page::from_rows(rows, limit, record, |record| record.id.to_string())?))
}

fn record(row: MeterRow) -> Result<UsageRecord, Problem> {
    let MeterRow { id, at, kind, agent, run_id, body, .. } = row;
    let record = convert::stored(&body)?;
    Ok(UsageRecord { id, at: Time(at), kind, agent, run: run_id, record })
}
