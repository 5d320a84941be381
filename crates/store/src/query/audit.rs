//! Reads of audit records.

use provost_core::id::name::Namespace;

use crate::Store;
use crate::query::QueryError;
use crate::table::governance::audit::{self, AuditFilter, AuditRow};

/// Returns the audit records of a namespace that match the filter, newest first.
pub async fn list(
    store: &Store,
    namespace: &Namespace,
    filter: AuditFilter,
    limit: u64,
) -> Result<Vec<AuditRow>, QueryError> {
    let namespace = namespace.clone();
    let read = store
        .read(move |tx| Ok::<_, QueryError>(audit::list(tx, namespace.as_str(), &filter, limit)?));
    read.await
}
