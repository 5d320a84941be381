//! Requests for deliveries.

use provost_core::DeliveryId;

use super::{ApiError, Client, RequestBuilder};
use crate::{Delivery, DeliveryQuery, Page};

impl Client {
    /// Lists deliveries, newest first.
    pub async fn deliveries(&self, query: &DeliveryQuery) -> Result<Page<Delivery>, ApiError> {
        self.call(RequestBuilder::get(self.path("deliveries")).query(query)?).await
    }

    /// Returns a delivery.
    pub async fn delivery(&self, id: DeliveryId) -> Result<Delivery, ApiError> {
        self.call(RequestBuilder::get(self.path(&format!("deliveries/{id}")))).await
    }

    /// Sends a failed, abandoned or unknown delivery again. A message that had arrived after all arrives twice.
    pub async fn retry_delivery(&self, id: DeliveryId) -> Result<Delivery, ApiError> {
        self.call(RequestBuilder::post(self.path(&format!("deliveries/{id}/retry")))).await
    }

    /// Dismisses a delivery that has not arrived, so that it is not sent.
    pub async fn dismiss_delivery(&self, id: DeliveryId) -> Result<Delivery, ApiError> {
        self.call(RequestBuilder::post(self.path(&format!("deliveries/{id}/dismiss")))).await
    }
}
