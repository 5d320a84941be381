//! Calls about questions to people, and about answers on their way out.

use provost_core::{ApprovalId, DeliveryId};

use super::{ApiError, Call, Client};
use crate::{
    Answer, Answered, Approval, ApprovalList, Decision, Delivery, DeliveryList, Grant, GrantKey,
    Page, Paging,
};

impl Client {
    /// Questions, newest first; those that nobody has answered, if nothing else is said.
    pub async fn approvals(&self, list: &ApprovalList) -> Result<Page<Approval>, ApiError> {
        self.call(Call::get(self.path("approvals")).query(list)?).await
    }

    /// A question as it stands.
    pub async fn approval(&self, id: ApprovalId) -> Result<Approval, ApiError> {
        self.call(Call::get(self.path(&format!("approvals/{id}")))).await
    }

    /// Answers a question. The first answer counts, whoever gives it.
    pub async fn answer(&self, id: ApprovalId, answer: &Answer) -> Result<Answered, ApiError> {
        self.call(Call::post(self.path(&format!("approvals/{id}/answer"))).body(answer)?).await
    }

    /// Says yes to exactly what was planned, this once.
    pub async fn approve(&self, id: ApprovalId) -> Result<Answered, ApiError> {
        self.answer(id, &Answer { decision: Decision::Approve, text: None, grant: None }).await
    }

    /// Says no.
    pub async fn deny(&self, id: ApprovalId, reason: Option<&str>) -> Result<Answered, ApiError> {
        let text = reason.map(str::to_owned);
        self.answer(id, &Answer { decision: Decision::Deny, text, grant: None }).await
    }

    /// Each yes that reaches further than one call.
    pub async fn grants(&self, list: &Paging) -> Result<Page<Grant>, ApiError> {
        self.call(Call::get(self.path("grants")).query(list)?).await
    }

    /// Takes a yes back.
    pub async fn revoke_grant(&self, key: &GrantKey) -> Result<(), ApiError> {
        self.done(Call::delete(self.path("grants")).query(key)?).await
    }

    /// Answers on their way out, newest first.
    pub async fn deliveries(&self, list: &DeliveryList) -> Result<Page<Delivery>, ApiError> {
        self.call(Call::get(self.path("deliveries")).query(list)?).await
    }

    /// An answer on its way out, as it stands.
    pub async fn delivery(&self, id: DeliveryId) -> Result<Delivery, ApiError> {
        self.call(Call::get(self.path(&format!("deliveries/{id}")))).await
    }

    /// Sends an answer anew.
    pub async fn retry_delivery(&self, id: DeliveryId) -> Result<Delivery, ApiError> {
        self.call(Call::post(self.path(&format!("deliveries/{id}/retry")))).await
    }

    /// Gives an answer up: it is not sent.
    pub async fn dismiss_delivery(&self, id: DeliveryId) -> Result<Delivery, ApiError> {
        self.call(Call::post(self.path(&format!("deliveries/{id}/dismiss")))).await
    }
}
