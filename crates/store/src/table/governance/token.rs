//! API tokens. The database holds only a hash of each token's secret part.

use provost_core::{Timestamp, TokenId};

use crate::{StoreError, Tx, params};

table! {
    /// An API token.
    TokenRow in "token" {
        /// The id: the public part of the token.
        id: TokenId,
        /// Hash of the secret part.
        hash: String,
        /// Display name.
        name: String,
        /// Permitted operations, as JSON.
        scopes: String,
        /// Permitted namespaces, as JSON.
        namespaces: String,
        /// Time of creation.
        created: Timestamp,
        /// Time of expiry; `None` for never.
        expires: Option<Timestamp>,
        /// Time of revocation.
        revoked: Option<Timestamp>,
        /// Approximate time of the last use.
        last_used: Option<Timestamp>,
    }
}

/// Returns the token with this id. `None` if it does not exist.
pub fn get(tx: &mut Tx<'_>, id: TokenId) -> Result<Option<TokenRow>, StoreError> {
    tx.fetch_optional(&TokenRow::select("WHERE id = ?1"), params![id])
}

/// Returns all tokens, oldest first, after the id `after`.
pub fn list(
    tx: &mut Tx<'_>,
    after: Option<TokenId>,
    limit: u64,
) -> Result<Vec<TokenRow>, StoreError> {
    let sql = TokenRow::select("WHERE id > coalesce(?1, '') ORDER BY id LIMIT ?2");
    tx.fetch_all(&sql, params![after, limit])
}

/// Revokes a token; the time of the first revocation is kept. Returns false if the token does not exist.
pub fn revoke(tx: &mut Tx<'_>, id: TokenId) -> Result<bool, StoreError> {
    let sql = "UPDATE token SET revoked = coalesce(revoked, ?2) WHERE id = ?1";
    Ok(tx.execute_fenced(sql, params![id, tx.now()])? == 1)
}

/// Records a use of the token; a later time is kept.
pub fn touch(tx: &mut Tx<'_>, id: TokenId, at: Timestamp) -> Result<(), StoreError> {
    let sql =
        "UPDATE token SET last_used = ?2 WHERE id = ?1 AND (last_used IS NULL OR last_used < ?2)";
    tx.execute_fenced(sql, params![id, at]).map(drop)
}
