//! Declared tools, who did what, and what was used.

use super::{ApiError, Call, Client};
use crate::{AuditList, AuditRecord, Capabilities, DeclaredTool, Page, Paging, UsageRecord};

impl Client {
    /// Declared tools, by name.
    pub async fn tools(&self, list: &Paging) -> Result<Page<DeclaredTool>, ApiError> {
        self.call(Call::get(self.path("tools")).query(list)?).await
    }

    /// Who did what, newest first.
    pub async fn audit(&self, list: &AuditList) -> Result<Page<AuditRecord>, ApiError> {
        self.call(Call::get(self.path("audit")).query(list)?).await
    }

    /// What was used, newest first.
    pub async fn usage(&self, list: &Paging) -> Result<Page<UsageRecord>, ApiError> {
        self.call(Call::get(self.path("usage")).query(list)?).await
    }

    /// What the server can do.
    pub async fn capabilities(&self) -> Result<Capabilities, ApiError> {
        self.call(Call::get("/v1/capabilities")).await
    }
}
