//! Reads of runs, their durable events and their attempts.

use provost_core::RunId;
use provost_core::id::name::Namespace;

use crate::Store;
use crate::query::QueryError;
use crate::query::event_log::check_run;
use crate::query::page::{PAGE_MAX, Page};
use crate::table::work::attempt::{self, AttemptRow};
use crate::table::work::run::{self, RunFilter, RunRow};
use crate::table::work::run_event::{self, RunEventRow};

/// Returns a run. Fails if the namespace has none with this id.
pub async fn get(store: &Store, namespace: &Namespace, id: RunId) -> Result<RunRow, QueryError> {
    let namespace = namespace.clone();
    let found = store.read(move |tx| Ok::<_, QueryError>(run::find(tx, namespace.as_str(), id)?));
    found.await?.ok_or_else(|| QueryError::not_found("run", id))
}

/// Returns the runs of a namespace that match the filter, newest first. The cursor is the `before` of the next filter.
pub async fn list(
    store: &Store,
    namespace: &Namespace,
    filter: RunFilter,
    limit: u64,
) -> Result<Page<RunRow, RunId>, QueryError> {
    let (namespace, limit) = (namespace.clone(), limit.clamp(1, PAGE_MAX));
    let rows = store
        .read(move |tx| Ok::<_, QueryError>(run::list(tx, namespace.as_str(), &filter, limit)?));
    Ok(Page::new(rows.await?, limit, |row| row.id))
}

/// Returns the durable events of a run after a sequence number, in order.
pub async fn events(
    store: &Store,
    namespace: &Namespace,
    id: RunId,
    after: u64,
    limit: u64,
) -> Result<Vec<RunEventRow>, QueryError> {
    get(store, namespace, id).await?;
    store.read(move |tx| Ok::<_, QueryError>(run_event::after(tx, id, after, limit)?)).await
}

/// Returns the attempts of a run, in order. Fails if the run does not exist.
pub async fn attempts(
    store: &Store,
    namespace: &Namespace,
    run: RunId,
) -> Result<Vec<AttemptRow>, QueryError> {
    let namespace = namespace.clone();
    let rows = store.read(move |tx| {
        check_run(tx, &namespace, run)?;
        Ok::<_, QueryError>(attempt::of_run(tx, run)?)
    });
    rows.await
}
