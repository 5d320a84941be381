//! What a gRPC status means in the words of the contract.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_net::NetError;
use tonic::{Code, Status};

use crate::limits::RETRY_AFTER_MAX;
use crate::transport::client::Call;
use crate::transport::fault::{self, DETAIL_RETRY_AFTER};

/// How much before the deadline the other side may see it pass.
const DEADLINE_SLACK: Duration = Duration::from_millis(50);
/// The metadata with which a server says how long to wait.
const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// What a status that is no success means. What could not be sent says so itself.
pub(crate) fn of(call: &Call, status: &Status) -> ToolContractError {
    if let Some(error) = network_error(call, status) {
        return call.lost(&error);
    }
    let message =
        format!("the service answered {:?}: {}", status.code(), call.clip.text(status.message()));
    let fault = match status.code() {
        Code::Unauthenticated => ToolContractError::new(ToolErrorCode::AuthInvalid, message),
        Code::PermissionDenied => ToolContractError::new(ToolErrorCode::AuthForbidden, message),
        Code::DeadlineExceeded => fault::timeout(),
        // Both sides watch the same deadline, and some say of it only that they stopped.
        Code::Cancelled if Instant::now() + DEADLINE_SLACK >= call.deadline => fault::timeout(),
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
    // A deadline that passed says as much by itself.
    let in_doubt = may_have_begun(status.code()) && fault.code != ToolErrorCode::Timeout;
    let fault = if in_doubt { call.doubtful(fault) } else { fault };
    match pushback(status).filter(|_| fault.retryable) {
        Some(wait) => fault.detail(DETAIL_RETRY_AFTER, wait.as_millis().to_string()),
        None => fault,
    }
}

/// True for what a server, or the way to it, says without telling whether the work was done. What was refused for want of
/// room or in favour of another was not.
fn may_have_begun(code: Code) -> bool {
    matches!(
        code,
        Code::Cancelled | Code::Unknown | Code::Internal | Code::Unavailable | Code::DataLoss
    )
}

/// The network error that caused a status, if any: a refused address is not the service's fault.
fn network_error(call: &Call, status: &Status) -> Option<NetError> {
    let mut cause = status.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<NetError>() {
            return Some(error.clone());
        }
        // The connection closed before this call was sent on it.
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

fn pushback(status: &Status) -> Option<Duration> {
    let text = status.metadata().get(PUSHBACK)?.to_str().ok()?;
    Some(Duration::from_millis(text.parse().ok()?).min(RETRY_AFTER_MAX))
}
