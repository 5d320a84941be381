//! Conversion of gRPC statuses into tool errors.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_net::NetError;
use tonic::{Code, Status};

use crate::limits::RETRY_AFTER_MAX;
use crate::transport::client::AttemptContext;
use crate::transport::error::{self, DETAIL_RETRY_AFTER};

/// Tolerance before the deadline, because the server may observe the deadline earlier.
const DEADLINE_SLACK: Duration = Duration::from_millis(50);
/// Metadata key with the retry delay of a server.
const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// Converts an error status of a call. If the request could not be sent, the result is the network error.
pub(crate) fn to_error(call: &AttemptContext, status: &Status) -> ToolContractError {
    if let Some(error) = network_error(call, status) {
        return call.transport_error(&error);
    }
    let message = format!(
        "the service responded with {:?}: {}",
        status.code(),
        call.excerpt.text(status.message())
    );
    let fault = match status.code() {
        Code::Unauthenticated => ToolContractError::new(ToolErrorCode::AuthInvalid, message),
        Code::PermissionDenied => ToolContractError::new(ToolErrorCode::AuthForbidden, message),
        Code::DeadlineExceeded => error::timeout(),
        // Both sides observe the same deadline, and some servers report it as a cancellation.
        Code::Cancelled if Instant::now() + DEADLINE_SLACK >= call.deadline => error::timeout(),
        Code::Ok
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::DataLoss => ToolContractError::final_failure(message),
        Code::Cancelled
        | Code::Unknown
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable => ToolContractError::new(ToolErrorCode::ExecutionFailed, message),
    };
    let fault = fault.detail("grpc_code", format!("{:?}", status.code()));
    // A timeout already implies an unknown outcome.
    let is_outcome_unknown =
        may_have_executed(status.code()) && fault.code != ToolErrorCode::Timeout;
    let fault = if is_outcome_unknown { call.outcome_unknown(fault) } else { fault };
    match retry_delay(status).filter(|_| fault.retryable) {
        Some(wait) => fault.detail(DETAIL_RETRY_AFTER, wait.as_millis().to_string()),
        None => fault,
    }
}

/// Returns true if the call may have been executed despite this status. Rejected and aborted calls were not executed.
fn may_have_executed(code: Code) -> bool {
    matches!(
        code,
        Code::Cancelled | Code::Unknown | Code::Internal | Code::Unavailable | Code::DataLoss
    )
}

/// Returns the network error that caused a status. `None` if the service returned the status.
fn network_error(call: &AttemptContext, status: &Status) -> Option<NetError> {
    let mut cause = status.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<NetError>() {
            return Some(error.clone());
        }
        // The connection was closed before this call was sent.
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled) {
            let source = Arc::new(std::io::Error::other(error.to_string()));
            return Some(NetError::Connect {
                host: call.tool.endpoint.clone(),
                source,
                sent: false,
            });
        }
        cause = error.source();
    }
    None
}

/// Returns the delay that the service requests before a retry. `None` if it requests none.
fn retry_delay(status: &Status) -> Option<Duration> {
    let text = status.metadata().get(PUSHBACK)?.to_str().ok()?;
    Some(Duration::from_millis(text.parse().ok()?).min(RETRY_AFTER_MAX))
}
