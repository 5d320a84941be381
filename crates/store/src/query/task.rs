//! Reads of tasks.

use provost_core::TaskId;
use provost_core::id::name::Namespace;

use crate::query::QueryError;
use crate::query::page::{PAGE_MAX, Page};
use crate::table::work::task::{self, TaskFilter, TaskRow};
use crate::{Store, Tx};

/// Returns a task. Fails if the namespace has none with this id.
pub async fn get(store: &Store, namespace: &Namespace, id: TaskId) -> Result<TaskRow, QueryError> {
    let namespace = namespace.clone();
    store.read(move |tx| find_task(tx, &namespace, id)).await
}

/// Returns the tasks of a namespace that match the filter, newest first. The cursor is the `before` of the next filter.
pub async fn list(
    store: &Store,
    namespace: &Namespace,
    filter: TaskFilter,
    limit: u64,
) -> Result<Page<TaskRow, TaskId>, QueryError> {
    let (namespace, limit) = (namespace.clone(), limit.clamp(1, PAGE_MAX));
    let rows = store
        .read(move |tx| Ok::<_, QueryError>(task::list(tx, namespace.as_str(), &filter, limit)?));
    Ok(Page::new(rows.await?, limit, |row| row.id))
}

/// Returns a task. Fails if it does not belong to the namespace.
pub fn find_task(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: TaskId,
) -> Result<TaskRow, QueryError> {
    task::find(tx, namespace.as_str(), id)?.ok_or_else(|| QueryError::not_found("task", id))
}
