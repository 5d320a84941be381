//! Reads of execution classes.

use provost_core::id::name::Namespace;
use provost_core::scheduling::ExecutionClassKey;

use crate::Store;
use crate::query::QueryError;
use crate::table::scheduling::execution_class::{self, ExecutionClassRow};

/// Returns the execution classes of a namespace, sorted by key, after the key `after`.
pub async fn list(
    store: &Store,
    namespace: &Namespace,
    after: &str,
    limit: u64,
) -> Result<Vec<ExecutionClassRow>, QueryError> {
    let (namespace, after) = (namespace.clone(), after.to_owned());
    let read = store.read(move |tx| {
        Ok::<_, QueryError>(execution_class::list(tx, namespace.as_str(), &after, limit)?)
    });
    read.await
}

/// Returns an execution class.
pub async fn get(
    store: &Store,
    namespace: &Namespace,
    key: &ExecutionClassKey,
) -> Result<ExecutionClassRow, QueryError> {
    let (namespace, key) = (namespace.clone(), key.clone());
    let read = store.read(move |tx| {
        let row = execution_class::find(tx, namespace.as_str(), key.as_str())?;
        row.ok_or_else(|| QueryError::not_found("class", &key))
    });
    read.await
}
