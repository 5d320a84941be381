//! Requests for approvals and standing approvals.

use provost_core::ApprovalId;

use super::{ApiError, Client, RequestBuilder};
use crate::{
    Approval, ApprovalQuery, ApprovalReceipt, Decision, DecisionRequest, Page, PageQuery,
    StandingApproval, StandingApprovalKey,
};

impl Client {
    /// Lists approvals, newest first. Without a filter it lists pending approvals.
    pub async fn approvals(&self, query: &ApprovalQuery) -> Result<Page<Approval>, ApiError> {
        self.call(RequestBuilder::get(self.path("approvals")).query(query)?).await
    }

    /// Returns an approval.
    pub async fn approval(&self, id: ApprovalId) -> Result<Approval, ApiError> {
        self.call(RequestBuilder::get(self.path(&format!("approvals/{id}")))).await
    }

    /// Decides about an approval. The first decision counts.
    pub async fn decide_approval(
        &self,
        id: ApprovalId,
        decision: &DecisionRequest,
    ) -> Result<ApprovalReceipt, ApiError> {
        let path = self.path(&format!("approvals/{id}/answer"));
        self.call(RequestBuilder::post(path).body(decision)?).await
    }

    /// Approves exactly the planned action, once.
    pub async fn approve(&self, id: ApprovalId) -> Result<ApprovalReceipt, ApiError> {
        let request = DecisionRequest { decision: Decision::Approve, text: None, grant: None };
        self.decide_approval(id, &request).await
    }

    /// Denies the planned action.
    pub async fn deny(
        &self,
        id: ApprovalId,
        reason: Option<&str>,
    ) -> Result<ApprovalReceipt, ApiError> {
        let text = reason.map(str::to_owned);
        let request = DecisionRequest { decision: Decision::Deny, text, grant: None };
        self.decide_approval(id, &request).await
    }

    /// Lists standing approvals.
    pub async fn standing_approvals(
        &self,
        query: &PageQuery,
    ) -> Result<Page<StandingApproval>, ApiError> {
        self.call(RequestBuilder::get(self.path("grants")).query(query)?).await
    }

    /// Revokes a standing approval. The next such call needs an approval again.
    pub async fn revoke_standing_approval(
        &self,
        key: &StandingApprovalKey,
    ) -> Result<(), ApiError> {
        self.call_without_result(RequestBuilder::delete(self.path("grants")).query(key)?).await
    }
}
