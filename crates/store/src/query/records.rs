//! Reads of audit and usage records.

use provost_core::UsageRecordId;
use provost_core::id::name::Namespace;

use crate::Store;
use crate::query::QueryError;
use crate::table::governance::audit::{self, AuditFilter, AuditRow};
use crate::table::governance::usage_record::{self, UsageRecordRow};

/// Returns the audit records of a namespace that match the filter, newest first.
pub async fn list_audit(
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

/// Returns the usage records of a namespace, newest first, older than `before`.
pub async fn list_usage(
    store: &Store,
    namespace: &Namespace,
    before: Option<UsageRecordId>,
    limit: u64,
) -> Result<Vec<UsageRecordRow>, QueryError> {
    let namespace = namespace.clone();
    let read = store.read(move |tx| {
        Ok::<_, QueryError>(usage_record::list(tx, namespace.as_str(), before, limit)?)
    });
    read.await
}
