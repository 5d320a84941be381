//! Encrypted secrets in the database.

use futures::future::BoxFuture;
use provost_store::table::governance::secret::{self, SecretRow};
use provost_store::{Store, StoreError};

use crate::{SealedSecret, SecretError, SecretLocation, SecretStore};

impl SecretStore for Store {
    fn get<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<SealedSecret>, SecretError>> {
        let location = (namespace.to_owned(), name.to_owned(), key.to_owned());
        Box::pin(async move {
            let found =
                self.read(move |tx| secret::get(tx, &location.0, &location.1, &location.2)).await;
            found.map(|row| row.map(to_sealed)).map_err(store_error)
        })
    }

    fn put(
        &self,
        row: SealedSecret,
        replaces: Option<u64>,
    ) -> BoxFuture<'_, Result<bool, SecretError>> {
        let row = to_row(row);
        Box::pin(async move {
            self.write(move |tx| secret::put(tx, &row, replaces)).await.map_err(store_error)
        })
    }

    fn list<'a>(
        &'a self,
        namespace: Option<&'a str>,
        after: Option<SecretLocation>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<SealedSecret>, SecretError>> {
        let namespace = namespace.map(str::to_owned);
        Box::pin(async move {
            let found =
                self.read(move |tx| secret::list(tx, namespace.as_deref(), after.as_ref(), limit));
            let rows = found.await.map_err(store_error)?;
            Ok(rows.into_iter().map(to_sealed).collect())
        })
    }

    fn delete<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        key: Option<&'a str>,
    ) -> BoxFuture<'a, Result<u64, SecretError>> {
        let location = (namespace.to_owned(), name.to_owned(), key.map(str::to_owned));
        Box::pin(async move {
            let deleted = self.write(move |tx| {
                secret::remove(tx, &location.0, &location.1, location.2.as_deref())
            });
            deleted.await.map_err(store_error)
        })
    }
}

/// Converts a stored row into a secret.
fn to_sealed(row: SecretRow) -> SealedSecret {
    let SecretRow { namespace, name, key, key_id, sealed, revision, updated } = row;
    SealedSecret { namespace, name, key, key_id, sealed, revision, updated }
}

/// Converts a secret into a row.
fn to_row(row: SealedSecret) -> SecretRow {
    let SealedSecret { namespace, name, key, key_id, sealed, revision, updated } = row;
    SecretRow { namespace, name, key, key_id, sealed, revision, updated }
}

/// Converts an error of the store into a [`SecretError::Unreadable`] of the same kind.
fn store_error(error: StoreError) -> SecretError {
    SecretError::unreadable("the store", error.kind(), error)
}
