//! Tools behind an HTTP server that speaks the tool contract with request and response envelopes.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::contract::{ToolContractError, ToolResponse};
use provost_core::resource::{ToolResource, ToolType};
use provost_tool::{ToolInvocation, ToolOutput, ToolRuntime};

use crate::limits;
use crate::transport::client::{self, AttemptContext, ToolHttpClient};

/// Tool runtime for tools of type `external`: services that receive a request envelope.
#[derive(Clone)]
pub struct ExternalRuntime {
    client: ToolHttpClient,
}

impl ExternalRuntime {
    /// Creates a runtime with these HTTP clients.
    pub fn new(client: ToolHttpClient) -> Self {
        Self { client }
    }
}

impl ToolRuntime for ExternalRuntime {
    fn kind(&self) -> ToolType {
        ToolType::External
    }

    fn check(&self, tool: &ToolResource) -> Result<(), ToolContractError> {
        self.client.check_network_policy(tool)?;
        client::endpoint(tool).map(|_url| ())
    }

    fn invoke(
        &self,
        attempt: ToolInvocation,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolContractError>> {
        let client = self.client.clone();
        let call = AttemptContext::from_invocation(&attempt);
        async move { call.with_deadline(execute(&client, &call)).await }.boxed()
    }
}

/// Sends the request envelope and converts the response envelope.
async fn execute(
    client: &ToolHttpClient,
    call: &AttemptContext,
) -> Result<ToolOutput, ToolContractError> {
    let url = client::endpoint(&call.tool)?;
    let request = call.envelope(url, ToolType::External.as_str())?;
    let response = client.send(call, request).await?;
    if client::is_success(response.status) {
        let body = call.body(response).await?;
        return read_envelope(&body, call);
    }
    let (status, headers) = (response.status, response.headers.clone());
    let body = response.bytes(limits::ANSWER_BYTES_MAX).await.unwrap_or_default();
    // A server that supports the contract explains errors in an envelope. For other servers, only the status is known.
    match envelope_error(&body, call) {
        Some(fault) => Err(fault),
        None => Err(call.status_error(status, &headers, &call.excerpt.bytes(&body, false))),
    }
}

/// Parses a response envelope, and converts it to an output. Returns an error if it does not belong to this request.
pub(crate) fn read_envelope(
    body: &[u8],
    call: &AttemptContext,
) -> Result<ToolOutput, ToolContractError> {
    let response: ToolResponse = serde_json::from_slice(body).map_err(|error| {
        ToolContractError::final_failure(format!(
            "the response is not a valid response envelope: {}",
            call.excerpt.text(&error.to_string())
        ))
    })?;
    response_output(call, response)
}

/// Returns the error in a body that is a response envelope for this request. `None` for another body.
fn envelope_error(body: &[u8], call: &AttemptContext) -> Option<ToolContractError> {
    let response: ToolResponse = serde_json::from_slice(body).ok()?;
    if response.request_id.trim() != call.request.request_id || response.error.is_none() {
        return None;
    }
    response_output(call, response).err()
}

/// Converts a response envelope to an output or an error. Texts of an error are redacted and cut.
pub(crate) fn response_output(
    call: &AttemptContext,
    response: ToolResponse,
) -> Result<ToolOutput, ToolContractError> {
    const DETAILS_MAX: usize = 32;
    let cut = |text: &str| call.excerpt.text(text);
    response.outcome(&call.request).map(ToolOutput::text).map_err(|fault| {
        let details = fault.details.iter().take(DETAILS_MAX);
        let details = details.map(|(key, value)| (cut(key), cut(value))).collect();
        ToolContractError { message: cut(&fault.message), details, ..fault }
    })
}
