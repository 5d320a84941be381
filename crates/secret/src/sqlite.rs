//! Sealed rows in the database.

use futures::future::BoxFuture;
use provost_store::table::governance::secret::{self, SecretRow};
use provost_store::{Store, StoreError};

use crate::{SealedPlace, SealedRow, SealedStore, SecretError};

impl SealedStore for Store {
    fn get<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<SealedRow>, SecretError>> {
        let place = (namespace.to_owned(), name.to_owned(), key.to_owned());
        Box::pin(async move {
            let found = self.read(move |tx| secret::get(tx, &place.0, &place.1, &place.2)).await;
            found.map(|row| row.map(sealed)).map_err(of_store)
        })
    }

    fn put(
        &self,
        row: SealedRow,
        replaces: Option<u64>,
    ) -> BoxFuture<'_, Result<bool, SecretError>> {
        let row = stored(row);
        Box::pin(async move {
            self.write(move |tx| secret::put(tx, &row, replaces)).await.map_err(of_store)
        })
    }

    fn list<'a>(
        &'a self,
        namespace: Option<&'a str>,
        after: Option<SealedPlace>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<SealedRow>, SecretError>> {
        let namespace = namespace.map(str::to_owned);
        Box::pin(async move {
            let found =
                self.read(move |tx| secret::list(tx, namespace.as_deref(), after.as_ref(), limit));
            let rows = found.await.map_err(of_store)?;
            Ok(rows.into_iter().map(sealed).collect())
        })
    }

    fn delete<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        key: Option<&'a str>,
    ) -> BoxFuture<'a, Result<u64, SecretError>> {
        let place = (namespace.to_owned(), name.to_owned(), key.map(str::to_owned));
        Box::pin(async move {
            let gone =
                self.write(move |tx| secret::remove(tx, &place.0, &place.1, place.2.as_deref()));
            gone.await.map_err(of_store)
        })
    }
}

fn sealed(row: SecretRow) -> SealedRow {
    let SecretRow { namespace, name, key, key_id, sealed, revision, updated } = row;
    SealedRow { namespace, name, key, key_id, sealed, revision, updated }
}

fn stored(row: SealedRow) -> SecretRow {
    let SealedRow { namespace, name, key, key_id, sealed, revision, updated } = row;
    SecretRow { namespace, name, key, key_id, sealed, revision, updated }
}

fn of_store(error: StoreError) -> SecretError {
    SecretError::unreadable("the store", error.kind(), error)
}
