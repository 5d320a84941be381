//! Reads of usage records.

use provost_core::UsageRecordId;
use provost_core::id::name::Namespace;

use crate::Store;
use crate::query::QueryError;
use crate::table::governance::usage_record::{self, UsageRecordRow};

/// Returns the usage records of a namespace, newest first, older than `before`.
pub async fn list(
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
