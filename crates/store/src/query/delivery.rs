//! Reads of deliveries.

use provost_core::id::name::Namespace;
use provost_core::lifecycle::DeliveryState;
use provost_core::{DeliveryId, RunId};

use crate::Store;
use crate::query::QueryError;
use crate::query::page::{PAGE_MAX, Page};
use crate::table::outbound::delivery::{self, DeliveryFilter, DeliveryRow};
use crate::table::work::run;

/// Returns a delivery. Fails if the namespace has none with this id.
pub async fn get(
    store: &Store,
    namespace: &Namespace,
    id: DeliveryId,
) -> Result<DeliveryRow, QueryError> {
    let namespace = namespace.clone();
    let read = store.read(move |tx| {
        let row = delivery::find(tx, namespace.as_str(), id)?;
        row.ok_or_else(|| QueryError::not_found("delivery", id))
    });
    read.await
}

/// Returns the deliveries of a run, oldest first. Fails if the run does not exist.
pub async fn of_run(
    store: &Store,
    namespace: &Namespace,
    id: RunId,
) -> Result<Vec<DeliveryRow>, QueryError> {
    let namespace = namespace.clone();
    let rows = store.read(move |tx| {
        run::find(tx, namespace.as_str(), id)?.ok_or_else(|| QueryError::not_found("run", id))?;
        Ok::<_, QueryError>(delivery::of_run(tx, id)?)
    });
    rows.await
}

/// Returns the deliveries of a namespace in one state, newest first.
pub async fn in_state(
    store: &Store,
    namespace: &Namespace,
    state: DeliveryState,
    limit: u64,
) -> Result<Vec<DeliveryRow>, QueryError> {
    let namespace = namespace.clone();
    let rows = store
        .read(move |tx| Ok::<_, QueryError>(delivery::list(tx, namespace.as_str(), state, limit)?));
    rows.await
}

/// Returns the deliveries of a namespace that match the filter, newest first. The cursor is the `before` of the next
/// filter.
pub async fn list(
    store: &Store,
    namespace: &Namespace,
    filter: DeliveryFilter,
    limit: u64,
) -> Result<Page<DeliveryRow, DeliveryId>, QueryError> {
    let (namespace, limit) = (namespace.clone(), limit.clamp(1, PAGE_MAX));
    let rows = store.read(move |tx| {
        Ok::<_, QueryError>(delivery::page(tx, namespace.as_str(), &filter, limit)?)
    });
    Ok(Page::new(rows.await?, limit, |row| row.id))
}
