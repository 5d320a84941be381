//! Tools behind an HTTP server that speaks the contract: envelope out, envelope back.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::contract::{ToolContractError, ToolResponse};
use provost_core::resource::{ToolResource, ToolType};
use provost_tool::{Attempt, ToolOutput, ToolRuntime};

use crate::limits;
use crate::transport::client::{self, Call, Outbound};

/// Tools of type `external`.
#[derive(Clone)]
pub struct ExternalRuntime {
    outbound: Outbound,
}

impl ExternalRuntime {
    /// Over these clients.
    pub fn new(outbound: Outbound) -> Self {
        Self { outbound }
    }
}

impl ToolRuntime for ExternalRuntime {
    fn kind(&self) -> ToolType {
        ToolType::External
    }

    fn check(&self, tool: &ToolResource) -> Result<(), ToolContractError> {
        self.outbound.admit(tool)?;
        client::endpoint(tool).map(|_url| ())
    }

    fn invoke(
        &self,
        attempt: Attempt,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolContractError>> {
        let outbound = self.outbound.clone();
        let call = Call::of(&attempt);
        async move { call.within(exchange(&outbound, &call)).await }.boxed()
    }
}

async fn exchange(outbound: &Outbound, call: &Call) -> Result<ToolOutput, ToolContractError> {
    let url = client::endpoint(&call.tool)?;
    let request = call.envelope(url, ToolType::External.as_str())?;
    let answer = outbound.send(call, request).await?;
    if client::succeeded(answer.status) {
        let body = call.body(answer).await?;
        return read_envelope(&body, call);
    }
    let (status, headers) = (answer.status, answer.headers.clone());
    let body = answer.bytes(limits::ANSWER_BYTES_MAX).await.unwrap_or_default();
    // A server that knows the contract says in it why it refused; any other one has only its status.
    match own_answer(&body, call) {
        Some(fault) => Err(fault),
        None => Err(call.refused(status, &headers, &call.clip.part(&body, /*is_cut*/ false))),
    }
}

/// What an envelope says, if it is one and answers this request.
pub(crate) fn read_envelope(body: &[u8], call: &Call) -> Result<ToolOutput, ToolContractError> {
    let response: ToolResponse = serde_json::from_slice(body).map_err(|error| {
        ToolContractError::final_failure(format!(
            "the answer is no response envelope of the contract: {}",
            call.clip.text(&error.to_string())
        ))
    })?;
    said(call, response)
}

/// The fault in a body that is an envelope for this request.
fn own_answer(body: &[u8], call: &Call) -> Option<ToolContractError> {
    let response: ToolResponse = serde_json::from_slice(body).ok()?;
    if response.request_id.trim() != call.request.request_id || response.error.is_none() {
        return None;
    }
    said(call, response).err()
}

/// What an envelope says. A fault is in words of the other side, cut to what fits into an error.
pub(crate) fn said(call: &Call, response: ToolResponse) -> Result<ToolOutput, ToolContractError> {
    const DETAILS_MAX: usize = 32;
    let cut = |text: &str| call.clip.text(text);
    response.outcome(&call.request).map(ToolOutput::text).map_err(|fault| {
        let details = fault.details.iter().take(DETAILS_MAX);
        let details = details.map(|(key, value)| (cut(key), cut(value))).collect();
        ToolContractError { message: cut(&fault.message), details, ..fault }
    })
}
