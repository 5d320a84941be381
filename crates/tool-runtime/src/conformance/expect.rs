//! Expectations about a response.

use provost_core::contract::{
    CONTRACT_VERSION, ToolErrorCode, ToolRequest, ToolResponse, ToolStatus,
};

/// Expected error of a response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) code: ToolErrorCode,
    pub(crate) retryable: bool,
}

pub(crate) const fn code(code: ToolErrorCode) -> Expected {
    Expected { code, retryable: code.retryable() }
}

/// Expects a permanent failure.
pub(crate) const FINAL: Expected =
    Expected { code: ToolErrorCode::ExecutionFailed, retryable: false };

/// Returns a message if the response envelope violates an invariant.
pub(crate) fn envelope(request: &ToolRequest, response: &ToolResponse) -> Result<(), String> {
    let sound = [
        ("the version is not v1", response.tool_contract_version == CONTRACT_VERSION),
        ("the request id differs", response.request_id == request.request_id),
        ("the attempt is 0", response.usage.attempt > 0),
        ("the trace differs", response.trace == request.trace),
        (
            "an error is present if and only if the status is not ok",
            (response.status == ToolStatus::Ok) == response.error.is_none(),
        ),
    ];
    if let Some((problem, _)) = sound.iter().find(|(_, holds)| !holds) {
        return Err((*problem).to_owned());
    }
    if let Some(error) = &response.error
        && (error.code.is_empty() || error.reason.is_empty() || error.message.is_empty())
    {
        return Err("the error has no code, reason or message".to_owned());
    }
    Ok(())
}

/// Returns a message unless the response is a success that contains the text.
pub(crate) fn succeeded(response: &ToolResponse, text: &str) -> Result<(), String> {
    match response.status {
        ToolStatus::Ok if response.output.result.contains(text) => Ok(()),
        ToolStatus::Ok => Err(format!("`{}` has no `{text}`", response.output.result)),
        _ => Err(format!("{:?}", response.error)),
    }
}

/// Returns a message unless the response has this error.
pub(crate) fn failed(response: &ToolResponse, expected: Expected) -> Result<(), String> {
    let Some(error) = &response.error else {
        return Err("the call succeeded".to_owned());
    };
    let is = (error.code.as_str(), error.reason.as_str(), error.retryable, response.status);
    let reason = expected.code.reason();
    let should =
        (expected.code.as_str(), reason.as_str(), expected.retryable, expected.code.status());
    if is == should {
        return Ok(());
    }
    Err(format!("{is:?} instead of {should:?}: {}", error.message))
}
