//! What a status or a lost connection means in the words of the contract.
//!
//! Nothing is read out of a text: codes come from statuses and types alone.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode, header};
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::recovery::EffectClass;
use provost_core::resource::{AuthProfile, ToolResource};

use crate::limits::{FAILURE_CHARS_MAX, RETRY_AFTER_MAX};

/// The fact that tells how long to wait before the next attempt, in milliseconds.
pub const DETAIL_RETRY_AFTER: &str = provost_tool::RETRY_AFTER_DETAIL;
/// The fact that tells the status of an HTTP answer.
pub const DETAIL_STATUS: &str = "http_status";
/// The fact that says `unknown` if the call may have happened although it failed.
pub const DETAIL_OUTCOME: &str = "outcome";

/// The word for a call that may have happened.
pub(crate) const OUTCOME_UNKNOWN: &str = "unknown";

/// The call may have happened although it failed: it may be made again only if a repeat does no harm.
pub(crate) fn unknown(tool: &ToolResource, fault: ToolContractError) -> ToolContractError {
    let repeatable =
        matches!(tool.effect, EffectClass::Pure | EffectClass::Idempotent | EffectClass::Keyed);
    ToolContractError { retryable: fault.retryable && repeatable, ..fault }
        .detail(DETAIL_OUTCOME, OUTCOME_UNKNOWN)
}

/// True if somebody may have begun to work before this status came: a gateway that lost its server says the same whether that
/// one had done its work or not. What is not implemented or refused for want of room was not begun.
pub(crate) fn may_have_begun(status: StatusCode) -> bool {
    let untouched = matches!(
        status,
        StatusCode::NOT_IMPLEMENTED
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::HTTP_VERSION_NOT_SUPPORTED
    );
    status.is_server_error() && !untouched
}

/// What an HTTP status that is no success means. `said` is what was said about it, already cut.
pub(crate) fn of_status(
    tool: &ToolResource,
    status: StatusCode,
    headers: &HeaderMap,
    said: &str,
) -> ToolContractError {
    let said = if said.is_empty() { String::new() } else { format!(": {said}") };
    let message = format!("the service answered {}{said}", status.as_u16());
    let fault = match status {
        StatusCode::UNAUTHORIZED => {
            ToolContractError::new(unauthorised(tool, is_token_refused(headers)), message)
        }
        StatusCode::FORBIDDEN => ToolContractError::new(ToolErrorCode::AuthForbidden, message),
        StatusCode::TOO_MANY_REQUESTS => {
            ToolContractError::new(ToolErrorCode::ExecutionFailed, message)
        }
        status if status.is_server_error() => {
            ToolContractError::new(ToolErrorCode::ExecutionFailed, message)
        }
        status if status.is_redirection() => ToolContractError::final_failure(format!(
            "the service answered {} and sends elsewhere: put the right address into the tool's endpoint",
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

/// A token that was fetched for this tool and is refused as a token has run out; anything else was never valid.
pub(crate) fn unauthorised(tool: &ToolResource, is_token_refused: bool) -> ToolErrorCode {
    let is_fetched =
        tool.auth.as_ref().is_some_and(|auth| auth.profile == AuthProfile::Oauth2ClientCredentials);
    if is_fetched && is_token_refused {
        ToolErrorCode::AuthExpired
    } else {
        ToolErrorCode::AuthInvalid
    }
}

fn is_token_refused(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::WWW_AUTHENTICATE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split([',', ' ']))
        .any(|part| matches!(part.trim(), "error=\"invalid_token\"" | "error=invalid_token"))
}

/// Reads how long the service asks to wait, at most [`RETRY_AFTER_MAX`].
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    provost_net::headers::retry_after(headers, SystemTime::now())
        .map(|wait| wait.min(RETRY_AFTER_MAX))
}

/// Text of a definition that is short enough for an error and stays on one line. What comes from a service may hold secrets and
/// is cut by [`Clip`](crate::transport::excerpt::Clip).
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::new();
    let mut words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let mut left = FAILURE_CHARS_MAX;
    // An endless run of blanks has no end either.
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

/// The definition of the tool is wrong.
pub(crate) fn definition(message: impl Into<String>) -> ToolContractError {
    ToolContractError::new(ToolErrorCode::RuntimePolicyInvalid, message)
}

/// The arguments are wrong.
pub(crate) fn input(message: impl Into<String>) -> ToolContractError {
    ToolContractError::new(ToolErrorCode::InvalidInput, message)
}

/// Its time is over.
pub(crate) fn timeout() -> ToolContractError {
    ToolContractError::new(ToolErrorCode::Timeout, "the tool did not answer in time")
        .detail(DETAIL_OUTCOME, OUTCOME_UNKNOWN)
}

/// Somebody asked to stop.
pub(crate) fn canceled() -> ToolContractError {
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
        of_status(&tool, StatusCode::from_u16(status).unwrap(), &headers, &shown(body))
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
        let said = map(&[("www-authenticate", "Bearer realm=\"x\", error=\"invalid_token\"")]);
        let code = |tool: &ToolResource| of_status(tool, StatusCode::UNAUTHORIZED, &said, "").code;
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
        assert_eq!(of(404, &[], "a\r\n\tb\u{7}").message, "the service answered 404: a b");
        assert_eq!(shown(&" ".repeat(1 << 20)), "");
    }
}
