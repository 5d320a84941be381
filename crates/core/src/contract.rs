//! Tool contract v1: the request and response envelopes of remote tools.
//!
//! The envelopes are plain data with one normal form. Codes, reasons and retryability are typed and never derived from
//! texts. read out of a text.

mod fault;
mod request;
pub(crate) use request::labels;
mod response;

pub use fault::{ToolContractError, ToolErrorCode, ToolErrorReason};
pub use request::{RequestAuth, RequestRuntime, RequestTool, ToolRequest, TraceIds};
pub use response::{ResponseError, ResponseOutput, ResponseUsage, ToolResponse, ToolStatus};

/// The only version.
pub const CONTRACT_VERSION: &str = "v1";
/// The operation of a request without an operation.
pub const OPERATION_INVOKE: &str = "invoke";
/// The header with the version, so that a server can check it before it reads the body.
pub const CONTRACT_HEADER: &str = "X-Tool-Contract-Version";

/// Fails if the version is not supported. Case and surrounding whitespace do not matter, and an empty version is
/// accepted.
fn check_version(text: &str) -> Result<(), ToolContractError> {
    let version = text.trim();
    if version.is_empty() || version.eq_ignore_ascii_case(CONTRACT_VERSION) {
        return Ok(());
    }
    let shown = crate::text::first_chars(version, 32);
    Err(ToolContractError::new(
        ToolErrorCode::InvalidInput,
        format!("tool contract version `{shown}` is not supported: use `{CONTRACT_VERSION}`"),
    )
    .detail("field", "tool_contract_version")
    .detail("expected", CONTRACT_VERSION))
}

#[cfg(test)]
mod tests;
