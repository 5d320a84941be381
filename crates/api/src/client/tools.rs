//! Requests for declared tools, audit records, usage records and capabilities.

use super::{ApiError, Client, RequestBuilder};
use crate::{AuditQuery, AuditRecord, Capabilities, Page, PageQuery, ToolInfo, UsageRecord};

impl Client {
    /// Lists declared tools by name.
    pub async fn tools(&self, query: &PageQuery) -> Result<Page<ToolInfo>, ApiError> {
        self.call(RequestBuilder::get(self.path("tools")).query(query)?).await
    }

    /// Lists audit records, newest first.
    pub async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditRecord>, ApiError> {
        self.call(RequestBuilder::get(self.path("audit")).query(query)?).await
    }

    /// Lists usage records, newest first.
    pub async fn usage(&self, query: &PageQuery) -> Result<Page<UsageRecord>, ApiError> {
        self.call(RequestBuilder::get(self.path("usage")).query(query)?).await
    }

    /// Returns the capabilities of the server.
    pub async fn capabilities(&self) -> Result<Capabilities, ApiError> {
        self.call(RequestBuilder::get("/v1/capabilities")).await
    }
}
