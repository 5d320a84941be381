//! Reads of execution classes.

use provost_core::id::name::Namespace;

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
