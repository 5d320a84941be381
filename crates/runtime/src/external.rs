//! Tools behind an HTTP server that speaks the contract: envelope out, envelope back.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::contract::{ToolFault, ToolRequest, ToolResponse};
use provost_core::resource::{ToolResource, ToolType};
use provost_tool::{Attempt, ToolOutput, ToolRuntime};

use crate::outbound::{self, Call, Outbound};
use crate::{fault, limits};

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

    fn check(&self, tool: &ToolResource) -> Result<(), ToolFault> {
        outbound::endpoint(tool).map(|_url| ())
    }

    fn invoke(&self, attempt: Attempt) -> BoxFuture<'static, Result<ToolOutput, ToolFault>> {
        let outbound = self.outbound.clone();
        let call = Call::of(&attempt);
        async move { call.within(exchange(&outbound, &call)).await }.boxed()
    }
}

async fn exchange(outbound: &Outbound, call: &Call) -> Result<ToolOutput, ToolFault> {
    let url = outbound::endpoint(&call.tool)?;
    let request = call.envelope(url, ToolType::External.as_str())?;
    let answer = outbound.send(call, request).await?;
    if outbound::succeeded(answer.status) {
        let body = call.body(answer).await?;
        return read_envelope(&body, &call.request);
    }
    let (status, headers) = (answer.status, answer.headers.clone());
    let body = answer.bytes(limits::ANSWER_BYTES_MAX).await.unwrap_or_default();
    // A server that knows the contract says in it why it refused; any other one has only its status.
    match own_answer(&body, &call.request) {
        Some(fault) => Err(fault),
        None => Err(fault::of_status(&call.tool, status, &headers, &body)),
    }
}

/// What an envelope says, if it is one and answers this request.
pub(crate) fn read_envelope(body: &[u8], request: &ToolRequest) -> Result<ToolOutput, ToolFault> {
    let response: ToolResponse = serde_json::from_slice(body).map_err(|error| {
        ToolFault::final_failure(format!(
            "the answer is no response envelope of the contract: {}",
            fault::shown(&error.to_string())
        ))
    })?;
    response.outcome(request).map(ToolOutput::text).map_err(bounded)
}

/// The fault in a body that is an envelope for this request.
fn own_answer(body: &[u8], request: &ToolRequest) -> Option<ToolFault> {
    let response: ToolResponse = serde_json::from_slice(body).ok()?;
    if response.request_id.trim() != request.request_id || response.error.is_none() {
        return None;
    }
    response.outcome(request).err().map(bounded)
}

/// A fault in words of the other side, cut to what fits into an error.
pub(crate) fn bounded(fault: ToolFault) -> ToolFault {
    const DETAILS_MAX: usize = 32;
    let details = fault.details.into_iter().take(DETAILS_MAX);
    let details = details.map(|(key, value)| (fault::shown(&key), fault::shown(&value)));
    ToolFault { message: fault::shown(&fault.message), details: details.collect(), ..fault }
}
