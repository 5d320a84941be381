//! Conversion of HTTP statuses and network errors into tool errors.
//!
//! Error codes follow from statuses and types only, and never from message texts.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode, header};
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::recovery::EffectClass;
use provost_core::resource::{AuthProfile, ToolResource};

use crate::limits::{FAILURE_CHARS_MAX, RETRY_AFTER_MAX};

/// Error detail with the time to wait before the next attempt, in milliseconds.
pub const DETAIL_RETRY_AFTER: &str = provost_tool::RETRY_AFTER_DETAIL;
/// Error detail with the HTTP status.
pub const DETAIL_STATUS: &str = "http_status";
/// Error detail that is `unknown` if the call may have been executed despite the error.
pub const DETAIL_OUTCOME: &str = "outcome";

/// Value of [`DETAIL_OUTCOME`] for a call that may have been executed.
pub(crate) const OUTCOME_UNKNOWN: &str = "unknown";

/// Marks an error as having an unknown outcome. It remains retryable only if repeating the call is safe.
pub(crate) fn mark_outcome_unknown(
    tool: &ToolResource,
    fault: ToolContractError,
) -> ToolContractError {
    let repeatable =
        matches!(tool.effect, EffectClass::Pure | EffectClass::Idempotent | EffectClass::Keyed);
    ToolContractError { retryable: fault.retryable && repeatable, ..fault }
        .detail(DETAIL_OUTCOME, OUTCOME_UNKNOWN)
}

/// Returns true if the call may have been executed despite this status. A gateway that lost its server cannot know. A
/// call that is not implemented or was rejected by an overloaded server was not executed.
pub(crate) fn may_have_executed(status: StatusCode) -> bool {
    let untouched = matches!(
        status,
        StatusCode::NOT_IMPLEMENTED
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::HTTP_VERSION_NOT_SUPPORTED
    );
    status.is_server_error() && !untouched
}

/// Converts an HTTP error status. `detail` is an excerpt of the response body.
pub(crate) fn from_status(
    tool: &ToolResource,
    status: StatusCode,
    headers: &HeaderMap,
    detail: &str,
) -> ToolContractError {
    let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
    let message = format!("the service returned status {}{detail}", status.as_u16());
    let fault = match status {
        StatusCode::UNAUTHORIZED => {
            ToolContractError::new(auth_error_code(tool, is_token_refused(headers)), message)
        }
        StatusCode::FORBIDDEN => ToolContractError::new(ToolErrorCode::AuthForbidden, message),
        StatusCode::TOO_MANY_REQUESTS => {
            ToolContractError::new(ToolErrorCode::ExecutionFailed, message)
        }
        status if status.is_server_error() => {
            ToolContractError::new(ToolErrorCode::ExecutionFailed, message)
        }
        status if status.is_redirection() => ToolContractError::final_failure(format!(
            "the service returned status {} and redirects to another address: update the endpoint of the tool",
            status.as_u16()
        )),
        _ => ToolContractError::final_failure(message),
    };
    let fault = fault.detail(DETAIL_STATUS, status.as_u16().to_string());
    match retry_after(headers) {
        Some(wait) if fault.retryable => {
            fault.detail(DETAIL_RETRY_AFTER, wait.as_millis().to_string())
        }
        _ => fault,
    }
}

/// Returns the error code of rejected credentials. A fetched token has expired; other credentials are invalid.
pub(crate) fn auth_error_code(tool: &ToolResource, is_token_refused: bool) -> ToolErrorCode {
    let is_fetched =
        tool.auth.as_ref().is_some_and(|auth| auth.profile == AuthProfile::Oauth2ClientCredentials);
    if is_fetched && is_token_refused {
        ToolErrorCode::AuthExpired
    } else {
        ToolErrorCode::AuthInvalid
    }
}

/// Returns true if the service states that the token is invalid.
fn is_token_refused(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::WWW_AUTHENTICATE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split([',', ' ']))
        .any(|part| matches!(part.trim(), "error=\"invalid_token\"" | "error=invalid_token"))
}

/// Returns the time that the service asks to wait, at most [`RETRY_AFTER_MAX`]. `None` if the response has no such
/// header.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    provost_net::headers::retry_after(headers, SystemTime::now())
        .map(|wait| wait.min(RETRY_AFTER_MAX))
}

/// Returns a text of a definition on one line, cut for errors. Texts of a service may contain secrets and need an
/// [`ErrorExcerpt`](crate::transport::excerpt::ErrorExcerpt).
pub(crate) fn truncate_for_error(text: &str) -> String {
    let mut shown = String::new();
    let mut words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let mut left = FAILURE_CHARS_MAX;
    // Limits the number of blanks as well.
    for word in words.by_ref().take(FAILURE_CHARS_MAX * 4).filter(|word| !word.is_empty()) {
        if !shown.is_empty() {
            if left == 0 {
                break;
            }
            shown.push(' ');
            left -= 1;
        }
        let size = word.chars().count();
        shown.extend(word.chars().take(left));
        if size > left {
            left = 0;
            break;
        }
        left -= size;
    }
    if left == 0 {
        shown.push('…');
    }
    shown
}

/// Creates the error of an invalid definition.
pub(crate) fn invalid_definition(message: impl Into<String>) -> ToolContractError {
    ToolContractError::new(ToolErrorCode::RuntimePolicyInvalid, message)
}

/// Creates the error of invalid arguments.
pub(crate) fn invalid_input(message: impl Into<String>) -> ToolContractError {
    ToolContractError::new(ToolErrorCode::InvalidInput, message)
}

/// Creates the error of an expired deadline.
pub(crate) fn timeout() -> ToolContractError {
    ToolContractError::new(ToolErrorCode::Timeout, "the tool did not respond in time")
        .detail(DETAIL_OUTCOME, OUTCOME_UNKNOWN)
}

/// Creates the error of a cancelled call.
pub(crate) fn cancelled() -> ToolContractError {
    ToolContractError::new(ToolErrorCode::Canceled, "the call was stopped")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use provost_core::contract::ToolErrorReason;
    use provost_core::resource::{ToolAuth, ToolType};

    use super::*;

    fn of(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> ToolContractError {
        let tool = ToolResource::new("t", ToolType::Http, "https://example.com");
        let headers = map(headers);
        from_status(
            &tool,
            StatusCode::from_u16(status).unwrap(),
            &headers,
            &truncate_for_error(body),
        )
    }

    fn map(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        headers
            .iter()
            .map(|(name, value)| {
                (http::HeaderName::from_static(name), HeaderValue::from_static(value))
            })
            .collect()
    }

    #[test]
    fn statuses_become_codes() {
        for (status, code, retryable) in [
            (400, ToolErrorCode::ExecutionFailed, false),
            (401, ToolErrorCode::AuthInvalid, false),
            (403, ToolErrorCode::AuthForbidden, false),
            (404, ToolErrorCode::ExecutionFailed, false),
            (302, ToolErrorCode::ExecutionFailed, false),
            (429, ToolErrorCode::ExecutionFailed, true),
            (500, ToolErrorCode::ExecutionFailed, true),
            (503, ToolErrorCode::ExecutionFailed, true),
        ] {
            let fault = of(status, &[], "no");
            assert_eq!((fault.code, fault.retryable), (code, retryable), "{status}");
            assert_eq!(fault.reason, code.reason());
            assert_eq!(fault.details[DETAIL_STATUS], status.to_string());
        }
        assert_eq!(of(404, &[], "").reason, ToolErrorReason::BackendFailure);
    }

    #[test]
    fn a_wait_that_is_asked_for_is_a_fact() {
        assert_eq!(of(429, &[("retry-after", "7")], "").details[DETAIL_RETRY_AFTER], "7000");
        assert_eq!(
            of(503, &[("retry-after", "999999")], "").details[DETAIL_RETRY_AFTER],
            "3600000"
        );
        let past = of(503, &[("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT")], "");
        assert_eq!(past.details[DETAIL_RETRY_AFTER], "0");
        assert!(!of(503, &[("retry-after", "soon")], "").details.contains_key(DETAIL_RETRY_AFTER));
        assert!(!of(404, &[("retry-after", "7")], "").details.contains_key(DETAIL_RETRY_AFTER));
    }

    #[test]
    fn a_fetched_token_that_is_refused_has_expired() {
        let mut tool = ToolResource::new("t", ToolType::Http, "https://example.com");
        let headers = map(&[("www-authenticate", "Bearer realm=\"x\", error=\"invalid_token\"")]);
        let code =
            |tool: &ToolResource| from_status(tool, StatusCode::UNAUTHORIZED, &headers, "").code;
        assert_eq!(code(&tool), ToolErrorCode::AuthInvalid);
        tool.auth =
            Some(ToolAuth { profile: AuthProfile::Oauth2ClientCredentials, ..ToolAuth::default() });
        assert_eq!(code(&tool), ToolErrorCode::AuthExpired);
    }

    #[test]
    fn what_a_service_says_is_cut() {
        let fault = of(404, &[], &"ä".repeat(5000));
        assert!(fault.message.chars().count() < FAILURE_CHARS_MAX + 40, "{}", fault.message);
        assert!(fault.message.ends_with('…'));
        assert_eq!(of(404, &[], "a\r\n\tb\u{7}").message, "the service returned status 404: a b");
        assert_eq!(truncate_for_error(&" ".repeat(1 << 20)), "");
    }
}
