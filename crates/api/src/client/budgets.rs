//! Requests for budgets.

use http::Method;

use super::{ApiError, Client, RequestBuilder};
use crate::{Budget, BudgetChange, BudgetKey, Page, PageQuery};

impl Client {
    /// Lists budgets by scope.
    pub async fn budgets(&self, query: &PageQuery) -> Result<Page<Budget>, ApiError> {
        self.call(RequestBuilder::get(self.path("budgets")).query(query)?).await
    }

    /// Sets a spending limit. Amounts that were spent before still count.
    pub async fn set_budget(&self, change: &BudgetChange) -> Result<Budget, ApiError> {
        self.call(RequestBuilder::new(Method::PUT, self.path("budgets")).body(change)?).await
    }

    /// Removes a spending limit.
    pub async fn remove_budget(&self, key: &BudgetKey) -> Result<(), ApiError> {
        self.call_without_result(RequestBuilder::delete(self.path("budgets")).query(key)?).await
    }
}
