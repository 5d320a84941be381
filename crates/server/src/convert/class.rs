//! Converts execution classes.

use provost_api::{DateTime, ExecutionClass, Problem};
use provost_store::table::scheduling::execution_class::ExecutionClassRow;

/// Converts an execution class.
pub(crate) fn view(row: ExecutionClassRow) -> Result<ExecutionClass, Problem> {
    Ok(ExecutionClass {
        key: row.key,
        agent: row.agent,
        lane: row.lane,
        pool: row.pool,
        concurrency_limit: row.max_running,
        running: row.running,
        health: row.health,
        probe_at: row.probe_at.map(DateTime),
        updated: DateTime(row.updated),
    })
}
