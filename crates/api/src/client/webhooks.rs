//! Requests for outgoing webhooks.

use super::path::segment;
use super::{ApiError, Client, RequestBuilder};
use crate::{CreatedWebhook, NewWebhook, Page, PageQuery, Webhook, WebhookDelivery};

impl Client {
    /// Creates a webhook. Only this response contains its signing key.
    pub async fn create_webhook(&self, webhook: &NewWebhook) -> Result<CreatedWebhook, ApiError> {
        self.call(RequestBuilder::post(self.path("webhooks")).body(webhook)?).await
    }

    /// Lists webhooks, oldest first.
    pub async fn webhooks(&self, query: &PageQuery) -> Result<Page<Webhook>, ApiError> {
        self.call(RequestBuilder::get(self.path("webhooks")).query(query)?).await
    }

    /// Returns a webhook.
    pub async fn webhook(&self, id: &str) -> Result<Webhook, ApiError> {
        self.call(RequestBuilder::get(self.named_path("webhooks", id, "")?)).await
    }

    /// Deletes a webhook and its pending deliveries.
    pub async fn delete_webhook(&self, id: &str) -> Result<(), ApiError> {
        self.call_without_result(RequestBuilder::delete(self.named_path("webhooks", id, "")?)).await
    }

    /// Lists the deliveries of a webhook, newest first.
    pub async fn webhook_deliveries(
        &self,
        id: &str,
        query: &PageQuery,
    ) -> Result<Page<WebhookDelivery>, ApiError> {
        let path = self.named_path("webhooks", id, "/posts")?;
        self.call(RequestBuilder::get(path).query(query)?).await
    }

    /// Sends a delivery of a webhook again.
    pub async fn resend_webhook_delivery(
        &self,
        id: &str,
        delivery: &str,
    ) -> Result<WebhookDelivery, ApiError> {
        let rest = format!("/posts/{}/resend", segment(delivery)?);
        self.call(RequestBuilder::post(self.named_path("webhooks", id, &rest)?)).await
    }
}
