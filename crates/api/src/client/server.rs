//! Requests for tokens, explanations and the server itself.

use serde_json::Value;

use super::path::segment;
use super::{ApiError, Client, RequestBuilder, read};
use crate::{
    CreatedToken, Explanation, HealthReport, Identity, NewToken, Page, PageQuery, Token, Version,
};

impl Client {
    /// Creates an API token. Only this response contains its secret.
    pub async fn create_token(&self, token: &NewToken) -> Result<CreatedToken, ApiError> {
        self.call(RequestBuilder::post("/v1/tokens").body(token)?).await
    }

    /// Lists API tokens without their secrets, oldest first.
    pub async fn tokens(&self, query: &PageQuery) -> Result<Page<Token>, ApiError> {
        self.call(RequestBuilder::get("/v1/tokens").query(query)?).await
    }

    /// Revokes an API token.
    pub async fn revoke_token(&self, id: &str) -> Result<(), ApiError> {
        let path = format!("/v1/tokens/{}", segment(id)?);
        self.call_without_result(RequestBuilder::delete(path)).await
    }

    /// Explains why a run, task, approval, session or delivery waits or failed.
    pub async fn explain(&self, id: &str) -> Result<Explanation, ApiError> {
        self.call(RequestBuilder::get(self.path(&format!("explain/{}", segment(id)?)))).await
    }

    /// Returns the identity of the caller.
    pub async fn identity(&self) -> Result<Identity, ApiError> {
        self.call(RequestBuilder::get("/v1/whoami")).await
    }

    /// Returns the versions of the server.
    pub async fn version(&self) -> Result<Version, ApiError> {
        self.call(RequestBuilder::get("/v1/version")).await
    }

    /// Checks whether the server process responds.
    pub async fn health(&self) -> Result<HealthReport, ApiError> {
        self.call(RequestBuilder::get("/healthz")).await
    }

    /// Checks whether the server can accept work, and returns the result of each check.
    pub async fn readiness(&self) -> Result<HealthReport, ApiError> {
        self.call(RequestBuilder::get("/readyz?verbose=true")).await
    }

    /// Returns the OpenAPI document.
    pub async fn openapi(&self) -> Result<Value, ApiError> {
        self.call(RequestBuilder::get("/openapi.json")).await
    }

    /// Returns the metrics in the text format of Prometheus.
    pub async fn metrics(&self) -> Result<String, ApiError> {
        let body = read(self.send(RequestBuilder::get("/metrics")).await?.into_body()).await?;
        String::from_utf8(body.to_vec()).map_err(|error| ApiError::Unreadable(error.to_string()))
    }
}
