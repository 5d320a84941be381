//! Reads of approvals and of standing grants.

use provost_core::ApprovalId;
use provost_core::id::name::Namespace;

use crate::Store;
use crate::query::QueryError;
use crate::query::page::{PAGE_MAX, Page};
use crate::table::governance::approval::{self, ApprovalFilter, ApprovalRow};
use crate::table::governance::approval_grant::{self, ApprovalGrantRow, GrantKey};

/// Returns an approval. Fails if the namespace has none with this id.
pub async fn get(
    store: &Store,
    namespace: &Namespace,
    id: ApprovalId,
) -> Result<ApprovalRow, QueryError> {
    let namespace = namespace.clone();
    let read =
        store.read(move |tx| Ok::<_, QueryError>(approval::find(tx, namespace.as_str(), id)?));
    read.await?.ok_or_else(|| QueryError::not_found("approval", id))
}

/// Returns the approvals of a namespace that match the filter, newest first. The cursor is the `before` of the next
/// filter.
pub async fn list(
    store: &Store,
    namespace: &Namespace,
    filter: ApprovalFilter,
    limit: u64,
) -> Result<Page<ApprovalRow, ApprovalId>, QueryError> {
    let (namespace, limit) = (namespace.clone(), limit.clamp(1, PAGE_MAX));
    let rows = store.read(move |tx| {
        Ok::<_, QueryError>(approval::list(tx, namespace.as_str(), &filter, limit)?)
    });
    Ok(Page::new(rows.await?, limit, |row| row.id))
}

/// Returns the pending approvals of a namespace, oldest first, after the id `after`.
pub async fn open(
    store: &Store,
    namespace: &Namespace,
    after: Option<ApprovalId>,
    limit: u64,
) -> Result<Vec<ApprovalRow>, QueryError> {
    let namespace = namespace.clone();
    let read = store
        .read(move |tx| Ok::<_, QueryError>(approval::open(tx, namespace.as_str(), after, limit)?));
    read.await
}

/// Returns the standing approvals of a namespace, ordered by scope and call key, after the given one.
pub async fn grants(
    store: &Store,
    namespace: &Namespace,
    after: GrantKey<'_>,
    limit: u64,
) -> Result<Vec<ApprovalGrantRow>, QueryError> {
    let namespace = namespace.clone();
    let (scope, key) = (after.scope.to_owned(), after.call_key.to_owned());
    let read = store.read(move |tx| {
        let after = GrantKey { scope: &scope, call_key: &key };
        Ok::<_, QueryError>(approval_grant::list(tx, namespace.as_str(), after, limit)?)
    });
    read.await
}
