//! Endpoints, and what statuses mean.

use std::sync::Arc;
use std::time::Duration;

use provost_core::recovery::EffectClass;
use provost_net::{NetError, NetPolicy};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use provost_core::resource::GrpcSpec;

use super::*;
use crate::DETAIL_RETRY_AFTER;
use crate::transport::excerpt::ErrorExcerpt;

fn tool(endpoint: &str, plaintext: bool) -> ToolResource {
    let mut tool = ToolResource::new("t", ToolType::Grpc, endpoint);
    tool.grpc = Some(GrpcSpec { plaintext, ..GrpcSpec::default() });
    tool
}

#[test]
fn endpoints_say_where_and_which_service() {
    let of = |endpoint: &str, plaintext| {
        target(&tool(endpoint, plaintext))
            .map(|GrpcTarget { endpoint, path }| (endpoint.host, endpoint.port, path.to_string()))
            .map_err(|fault| fault.code)
    };
    let found = |host: &str, port, path: &str| Ok((host.to_owned(), port, path.to_owned()));
    assert_eq!(of("tools.example:50051", false), found("tools.example", 50051, EXECUTE_PATH));
    assert_eq!(of("grpcs://tools.example", false), found("tools.example", 443, EXECUTE_PATH));
    assert_eq!(of("grpc://127.0.0.1:80", true), found("127.0.0.1", 80, EXECUTE_PATH));
    assert_eq!(of("[::1]:443", false), found("[::1]", 443, EXECUTE_PATH));
    assert_eq!(
        of("https://t.example:1/orloj.tool.v1.ToolService", false),
        found("t.example", 1, "/orloj.tool.v1.ToolService/Execute")
    );
    assert_eq!(of("t.example:1/a.B/Run", false), found("t.example", 1, "/a.B/Run"));
    for (endpoint, plaintext) in [
        ("grpc://t.example", false),
        ("grpcs://t.example", true),
        ("ftp://t.example", false),
        ("user:pass@t.example:1", false),
        ("t.example:1?x=1", false),
        ("", false),
    ] {
        assert_eq!(of(endpoint, plaintext), Err(ToolErrorCode::RuntimePolicyInvalid), "{endpoint}");
    }
}

fn call(effect: EffectClass) -> AttemptContext {
    let tool = ToolResource { effect, ..tool("t.example:1", false) };
    AttemptContext {
        tool: Arc::new(tool),
        request: Arc::default(),
        credentials: provost_tool::Credentials::default(),
        deadline: Instant::now() + Duration::from_secs(1),
        cancel: CancellationToken::new(),
        excerpt: ErrorExcerpt::default(),
        is_read_only: false,
    }
}

#[test]
fn statuses_become_codes() {
    for (code, expected, retryable) in [
        (Code::Unauthenticated, ToolErrorCode::AuthInvalid, false),
        (Code::PermissionDenied, ToolErrorCode::AuthForbidden, false),
        (Code::DeadlineExceeded, ToolErrorCode::Timeout, true),
        (Code::Unavailable, ToolErrorCode::ExecutionFailed, true),
        (Code::ResourceExhausted, ToolErrorCode::ExecutionFailed, true),
        (Code::Internal, ToolErrorCode::ExecutionFailed, true),
        (Code::InvalidArgument, ToolErrorCode::ExecutionFailed, false),
        (Code::Unimplemented, ToolErrorCode::ExecutionFailed, false),
        (Code::DataLoss, ToolErrorCode::ExecutionFailed, false),
    ] {
        let status = Status::new(code, "x".repeat(10_000));
        let fault = status::to_error(&call(EffectClass::Pure), &status);
        assert_eq!((fault.code, fault.retryable), (expected, retryable), "{code:?}");
        assert!(fault.message.len() < 600);
    }
    let mut busy = Status::resource_exhausted("busy");
    busy.metadata_mut().insert("grpc-retry-pushback-ms", "250".parse().unwrap());
    assert_eq!(
        status::to_error(&call(EffectClass::Opaque), &busy).details[DETAIL_RETRY_AFTER],
        "250"
    );
}

#[test]
fn what_may_have_happened_is_told() {
    for (code, in_doubt) in [
        (Code::Unknown, true),
        (Code::Unavailable, true),
        (Code::Internal, true),
        (Code::Cancelled, true),
        (Code::DataLoss, true),
        (Code::ResourceExhausted, false),
        (Code::Aborted, false),
        (Code::InvalidArgument, false),
        (Code::Unauthenticated, false),
    ] {
        let call = AttemptContext {
            deadline: Instant::now() + Duration::from_secs(60),
            ..call(EffectClass::Provable)
        };
        let after = status::to_error(&call, &Status::new(code, ""));
        assert_eq!(after.details.contains_key("outcome"), in_doubt, "{code:?}");
        assert!(!in_doubt || !after.retryable, "{code:?}");
    }
}

#[test]
fn what_was_refused_when_it_was_dialled_is_not_the_services_fault() {
    let refused =
        NetPolicy::default().check_url(&Url::parse("https://127.0.0.1/").unwrap()).unwrap_err();
    assert!(matches!(refused, NetError::Refused { .. }));
    let fault =
        status::to_error(&call(EffectClass::Opaque), &Status::from_error(Box::new(refused)));
    assert_eq!(fault.code, ToolErrorCode::PermissionDenied);
}
