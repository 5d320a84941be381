//! Tokens of the run API. What is stored opens nothing: only a hash of the secret is here.

use provost_core::{Timestamp, TokenId};

use crate::{StoreError, Tx, params};

table! {
    /// One token.
    TokenRow in "token" {
        /// The id, which is the part of the token that is no secret.
        id: TokenId,
        /// The hash of the secret.
        hash: String,
        /// A name for people.
        name: String,
        /// What it may be used for, as JSON.
        scopes: String,
        /// In which namespaces, as JSON.
        namespaces: String,
        /// When it was made.
        created: Timestamp,
        /// When it ends by itself.
        expires: Option<Timestamp>,
        /// When it was taken back.
        revoked: Option<Timestamp>,
        /// When it was last used, more or less.
        last_used: Option<Timestamp>,
    }
}

/// The token with the id.
pub fn get(tx: &mut Tx<'_>, id: TokenId) -> Result<Option<TokenRow>, StoreError> {
    tx.optional(&TokenRow::select("WHERE id = ?1"), params![id])
}

/// All tokens, oldest first, after the id `after`.
pub fn list(
    tx: &mut Tx<'_>,
    after: Option<TokenId>,
    limit: u64,
) -> Result<Vec<TokenRow>, StoreError> {
    let sql = TokenRow::select("WHERE id > coalesce(?1, '') ORDER BY id LIMIT ?2");
    tx.all(&sql, params![after, limit])
}

/// Takes a token back. The first time counts; false if there is no such token.
pub fn revoke(tx: &mut Tx<'_>, id: TokenId) -> Result<bool, StoreError> {
    let sql = "UPDATE token SET revoked = coalesce(revoked, ?2) WHERE id = ?1";
    Ok(tx.execute_fenced(sql, params![id, tx.now()])? == 1)
}

/// Notes that a token was used; the latest time counts.
pub fn touch(tx: &mut Tx<'_>, id: TokenId, at: Timestamp) -> Result<(), StoreError> {
    let sql =
        "UPDATE token SET last_used = ?2 WHERE id = ?1 AND (last_used IS NULL OR last_used < ?2)";
    tx.execute_fenced(sql, params![id, at]).map(drop)
}
