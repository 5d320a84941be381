//! Classes on the wire.

use provost_api::{Class, Problem, Time};
use provost_store::table::scheduling::execution_class::ExecClassRow;

use super::word;

/// A class as it stands.
pub(crate) fn view(row: ExecClassRow) -> Result<Class, Problem> {
    Ok(Class {
        key: row.key,
        agent: row.agent,
        lane: row.lane,
        pool: row.pool,
        desired: row.desired,
        running: row.running,
        health: word(&row.health)?,
        probe_at: row.probe_at.map(Time),
        updated: Time(row.updated),
    })
}
