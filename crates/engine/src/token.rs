//! API tokens as stored. Only the hash of a secret is stored; the API creates and compares secrets.

use provost_core::{Timestamp, TokenId};
use provost_store::table::governance::token::{self, TokenRow};

use crate::engine::Engine;
use crate::error::EngineError;
use provost_store::query::page::{PAGE_MAX, Page};

/// A token to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// Hash of the secret.
    pub hash: String,
    /// Display name.
    pub name: String,
    /// Permitted scopes.
    pub scopes: Vec<String>,
    /// Permitted namespaces.
    pub namespaces: Vec<String>,
    /// Expiry. `None`: the token does not expire.
    pub expires: Option<Timestamp>,
}

/// A stored token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The id.
    pub id: TokenId,
    /// Hash of the secret.
    pub hash: String,
    /// Display name.
    pub name: String,
    /// Permitted scopes.
    pub scopes: Vec<String>,
    /// Permitted namespaces.
    pub namespaces: Vec<String>,
    /// Time of creation.
    pub created: Timestamp,
    /// Expiry. `None`: the token does not expire.
    pub expires: Option<Timestamp>,
    /// Time of revocation.
    pub revoked: Option<Timestamp>,
    /// Time of last use. Approximate, because callers record it only now and then.
    pub last_used: Option<Timestamp>,
}

impl Token {
    /// Parses a stored token.
    fn from_row(row: TokenRow) -> Result<Self, EngineError> {
        Ok(Self {
            id: row.id,
            hash: row.hash,
            name: row.name,
            scopes: serde_json::from_str(&row.scopes)?,
            namespaces: serde_json::from_str(&row.namespaces)?,
            created: row.created,
            expires: row.expires,
            revoked: row.revoked,
            last_used: row.last_used,
        })
    }
}

/// API tokens. See [`Engine::tokens`](crate::Engine::tokens).
#[derive(Clone, Copy)]
pub struct Tokens<'a> {
    pub(crate) engine: &'a Engine,
}

impl Tokens<'_> {
    /// Stores a token under a new id and returns it.
    pub async fn create(self, new: NewToken) -> Result<Token, EngineError> {
        let id: TokenId = self.engine.inner.env.id();
        let scopes = serde_json::to_string(&new.scopes)?;
        let namespaces = serde_json::to_string(&new.namespaces)?;
        let write = self.engine.store().write(move |tx| {
            let row = TokenRow {
                id,
                hash: new.hash.clone(),
                name: new.name.clone(),
                scopes: scopes.clone(),
                namespaces: namespaces.clone(),
                created: tx.now(),
                expires: new.expires,
                revoked: None,
                last_used: None,
            };
            row.insert(tx)?;
            Token::from_row(row)
        });
        write.await
    }

    /// Returns a token, revoked or not. Fails if there is none with this id.
    pub async fn get(self, id: TokenId) -> Result<Token, EngineError> {
        let row = self.engine.store().read(move |tx| Ok::<_, EngineError>(token::get(tx, id)?));
        Token::from_row(row.await?.ok_or_else(|| EngineError::not_found("token", id))?)
    }

    /// Lists tokens in order of creation, after the token `after`.
    pub async fn list(
        self,
        after: Option<TokenId>,
        limit: u64,
    ) -> Result<Page<Token, TokenId>, EngineError> {
        let limit = limit.clamp(1, PAGE_MAX);
        let rows = self
            .engine
            .store()
            .read(move |tx| Ok::<_, EngineError>(token::list(tx, after, limit)?));
        let tokens = rows.await?.into_iter().map(Token::from_row).collect::<Result<_, _>>()?;
        Ok(Page::new(tokens, limit, |token: &Token| token.id))
    }

    /// Revokes a token and returns it. A repeated call keeps the first time. Fails if there is no such token.
    pub async fn revoke(self, id: TokenId) -> Result<Token, EngineError> {
        let write = self.engine.store().write(move |tx| {
            token::revoke(tx, id)?;
            let row = token::get(tx, id)?.ok_or_else(|| EngineError::not_found("token", id))?;
            Token::from_row(row)
        });
        write.await
    }

    /// Records the time of use of a token. A later time is kept. Call it now and then, not for each request.
    pub async fn touch(self, id: TokenId, at: Timestamp) -> Result<(), EngineError> {
        self.engine.store().write(move |tx| Ok::<_, EngineError>(token::touch(tx, id, at)?)).await
    }
}
