//! Calls about outgoing webhooks.

use super::path::segment;
use super::{ApiError, Call, Client};
use crate::{NewWebhook, Page, Paging, Webhook, WebhookCreated, WebhookPost};

impl Client {
    /// Makes a webhook; its secret is in this answer and nowhere else.
    pub async fn create_webhook(&self, webhook: &NewWebhook) -> Result<WebhookCreated, ApiError> {
        self.call(Call::post(self.path("webhooks")).body(webhook)?).await
    }

    /// The webhooks.
    pub async fn webhooks(&self, list: &Paging) -> Result<Page<Webhook>, ApiError> {
        self.call(Call::get(self.path("webhooks")).query(list)?).await
    }

    /// A webhook as it stands.
    pub async fn webhook(&self, id: &str) -> Result<Webhook, ApiError> {
        self.call(Call::get(self.named("webhooks", id, "")?)).await
    }

    /// Removes a webhook.
    pub async fn delete_webhook(&self, id: &str) -> Result<(), ApiError> {
        self.done(Call::delete(self.named("webhooks", id, "")?)).await
    }

    /// What was sent to a webhook, newest first.
    pub async fn webhook_posts(
        &self,
        id: &str,
        list: &Paging,
    ) -> Result<Page<WebhookPost>, ApiError> {
        self.call(Call::get(self.named("webhooks", id, "/posts")?).query(list)?).await
    }

    /// Sends a message to a webhook once more.
    pub async fn resend_webhook_post(&self, id: &str, post: &str) -> Result<WebhookPost, ApiError> {
        let rest = format!("/posts/{}/resend", segment(post)?);
        self.call(Call::post(self.named("webhooks", id, &rest)?)).await
    }
}
