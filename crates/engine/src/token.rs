//! Tokens of the run API, as they are stored. Secrets are made, shown and compared where requests come in; here is only
//! their hash.

use provost_core::{Timestamp, TokenId};
use provost_store::table::governance::token::{self, TokenRow};

use crate::engine::Engine;
use crate::error::EngineError;
use provost_store::query::page::{PAGE_MAX, Page};

/// A token that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// The hash of its secret.
    pub hash: String,
    /// A name for people.
    pub name: String,
    /// What it may be used for.
    pub scopes: Vec<String>,
    /// In which namespaces.
    pub namespaces: Vec<String>,
    /// When it ends by itself.
    pub expires: Option<Timestamp>,
}

/// A token as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The id.
    pub id: TokenId,
    /// The hash of its secret.
    pub hash: String,
    /// A name for people.
    pub name: String,
    /// What it may be used for.
    pub scopes: Vec<String>,
    /// In which namespaces.
    pub namespaces: Vec<String>,
    /// When it was made.
    pub created: Timestamp,
    /// When it ends by itself.
    pub expires: Option<Timestamp>,
    /// When it was taken back.
    pub revoked: Option<Timestamp>,
    /// When it was last used, more or less.
    pub last_used: Option<Timestamp>,
}

impl Token {
    fn read(row: TokenRow) -> Result<Self, EngineError> {
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
    /// Stores a token under a new id.
    pub async fn create(self, new: NewToken) -> Result<Token, EngineError> {
        let id: TokenId = self.engine.shared.env.id();
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
            Token::read(row)
        });
        write.await
    }

    /// A token as it stands, also if it was taken back.
    pub async fn get(self, id: TokenId) -> Result<Token, EngineError> {
        let row = self.engine.store().read(move |tx| Ok::<_, EngineError>(token::get(tx, id)?));
        Token::read(row.await?.ok_or_else(|| EngineError::not_found("token", id))?)
    }

    /// All tokens, oldest first, after an id.
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
        let tokens = rows.await?.into_iter().map(Token::read).collect::<Result<_, _>>()?;
        Ok(Page::new(tokens, limit, |token: &Token| token.id))
    }

    /// Takes a token back. The first time counts.
    pub async fn revoke(self, id: TokenId) -> Result<Token, EngineError> {
        let write = self.engine.store().write(move |tx| {
            token::revoke(tx, id)?;
            let row = token::get(tx, id)?.ok_or_else(|| EngineError::not_found("token", id))?;
            Token::read(row)
        });
        write.await
    }

    /// Notes when a token was used. Callers do it now and then, not each time.
    pub async fn touch(self, id: TokenId, at: Timestamp) -> Result<(), EngineError> {
        self.engine.store().write(move |tx| Ok::<_, EngineError>(token::touch(tx, id, at)?)).await
    }
}
