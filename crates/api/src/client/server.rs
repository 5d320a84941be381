//! Calls about the server itself: tokens, who one is, how it is.

use serde_json::Value;

use super::path::segment;
use super::{ApiError, Call, Client, read};
use crate::{Health, NewToken, Page, Paging, Token, TokenCreated, Version, Who};

impl Client {
    /// Makes a token; its secret is in this answer and nowhere else.
    pub async fn create_token(&self, token: &NewToken) -> Result<TokenCreated, ApiError> {
        self.call(Call::post("/v1/tokens").body(token)?).await
    }

    /// The tokens, without their secrets.
    pub async fn tokens(&self, list: &Paging) -> Result<Page<Token>, ApiError> {
        self.call(Call::get("/v1/tokens").query(list)?).await
    }

    /// Takes a token back: from now on it opens nothing.
    pub async fn revoke_token(&self, id: &str) -> Result<(), ApiError> {
        self.done(Call::delete(format!("/v1/tokens/{}", segment(id)?))).await
    }

    /// Whose token this is.
    pub async fn who(&self) -> Result<Who, ApiError> {
        self.call(Call::get("/v1/whoami")).await
    }

    /// What runs there.
    pub async fn version(&self) -> Result<Version, ApiError> {
        self.call(Call::get("/v1/version")).await
    }

    /// Whether it is alive.
    pub async fn health(&self) -> Result<Health, ApiError> {
        self.call(Call::get("/healthz")).await
    }

    /// Whether it can work, and what was looked at.
    pub async fn readiness(&self) -> Result<Health, ApiError> {
        self.call(Call::get("/readyz?verbose=true")).await
    }

    /// The OpenAPI document.
    pub async fn openapi(&self) -> Result<Value, ApiError> {
        self.call(Call::get("/openapi.json")).await
    }

    /// The numbers for Prometheus, as text.
    pub async fn metrics(&self) -> Result<String, ApiError> {
        let body = read(self.send(Call::get("/metrics")).await?.into_body()).await?;
        String::from_utf8(body.to_vec()).map_err(|error| ApiError::Unreadable(error.to_string()))
    }
}
