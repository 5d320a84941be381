//! Requests for execution classes.

use http::Method;

use super::{ApiError, Client, RequestBuilder};
use crate::{ConcurrencyLimit, ExecutionClass, Page, PageQuery};

impl Client {
    /// Lists execution classes by key.
    pub async fn execution_classes(
        &self,
        query: &PageQuery,
    ) -> Result<Page<ExecutionClass>, ApiError> {
        self.call(RequestBuilder::get(self.path("classes")).query(query)?).await
    }

    /// Sets the concurrency limit of an execution class and returns the class. Zero pauses the class.
    pub async fn set_concurrency_limit(
        &self,
        key: &str,
        limit: u64,
    ) -> Result<ExecutionClass, ApiError> {
        let path = self.named_path("classes", key, "/target")?;
        let request = RequestBuilder::new(Method::PUT, path).body(&ConcurrencyLimit { limit })?;
        self.call(request).await
    }
}
