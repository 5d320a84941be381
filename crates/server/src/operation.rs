//! One operation: where it is, who may call it, what goes in, what comes out, and who does it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use http::Method;
use provost_api::{Problem, Scope};
use schemars::SchemaGenerator;
use serde_json::{Value, json};

use crate::input::{Cx, Input, InputDoc};
use crate::output::{Output, OutputDoc};

/// Who may call an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody.
    Open,
    /// Whoever has a token, whatever it may do.
    Known,
    /// Whoever has a token with this scope.
    Scope(Scope),
}

/// Bytes of a body, unless the operation carries messages.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a body with messages, pictures and documents.
const BODY_BYTES_LARGE_MAX: usize = 32 * 1024 * 1024;

type Doing = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;
type Handler = Arc<dyn Fn(Cx, Bytes) -> Doing + Send + Sync>;
type Describe<T> = fn(&mut SchemaGenerator) -> T;

/// One operation.
#[derive(Clone)]
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// Its name in clients: `submitTask`.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) access: Access,
    /// True if it reads `Idempotency-Key`.
    pub(crate) keyed: bool,
    /// True if it reads `If-Match`.
    pub(crate) guarded: bool,
    /// True if it may take as long as it likes: a stream, or a wait with a timeout of its own.
    pub(crate) endless: bool,
    /// Bytes of its body at most.
    pub(crate) body_bytes_max: usize,
    pub(crate) input: Describe<InputDoc>,
    pub(crate) output: Describe<OutputDoc>,
    pub(crate) handler: Handler,
}

impl Operation {
    /// An operation and who does it.
    pub(crate) fn new<I, O, F, R>(
        (method, path): (Method, &'static str),
        id: &'static str,
        summary: &'static str,
        run: F,
    ) -> Self
    where
        I: Input,
        O: Output,
        F: Fn(Cx, I) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<O, Problem>> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |cx, body| {
            let run = run.clone();
            Box::pin(async move {
                let input = I::read(&cx, body)?;
                run(cx, input).await?.answer()
            })
        });
        Self {
            method,
            path,
            id,
            summary,
            access: Access::Scope(Scope::Read),
            keyed: false,
            guarded: false,
            endless: false,
            body_bytes_max: BODY_BYTES_MAX,
            input: I::describe,
            output: O::describe,
            handler,
        }
    }

    /// The same for whoever has this scope; it is `read` if nothing is said.
    pub(crate) fn scope(mut self, scope: Scope) -> Self {
        self.access = Access::Scope(scope);
        self
    }

    /// The same for everybody.
    pub(crate) fn open(mut self) -> Self {
        self.access = Access::Open;
        self
    }

    /// The same for whoever has any token.
    pub(crate) fn known(mut self) -> Self {
        self.access = Access::Known;
        self
    }

    /// The same; a repeat with the same `Idempotency-Key` is harmless.
    pub(crate) fn keyed(mut self) -> Self {
        self.keyed = true;
        self
    }

    /// The same; `If-Match` guards it.
    pub(crate) fn guarded(mut self) -> Self {
        self.guarded = true;
        self
    }

    /// The same, for as long as it takes: a stream, or a wait with a timeout of its own.
    pub(crate) fn endless(mut self) -> Self {
        self.endless = true;
        self
    }

    /// The same; its body may be as large as messages with pictures and documents are.
    pub(crate) fn large(mut self) -> Self {
        self.body_bytes_max = BODY_BYTES_LARGE_MAX;
        self
    }

    /// The names in the path, in order.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// The first word behind the namespace: what it is about.
    pub(crate) fn tag(&self) -> &'static str {
        let rest = self.path.strip_prefix("/v1/namespaces/{namespace}/");
        let rest = rest
            .or_else(|| self.path.strip_prefix("/v1/").filter(|rest| rest.starts_with("tokens")));
        rest.and_then(|rest| rest.split('/').next()).unwrap_or("server")
    }
}

/// A schema for a name in a path.
pub(crate) fn parameter_schema(name: &str, schemas: &mut SchemaGenerator) -> Value {
    use provost_core::limits::{NAMESPACE_CHARS_MAX, SESSION_CHARS_MAX};
    use provost_core::{
        ApprovalId, DeliveryId, InputId, RunId, TaskId, TokenId, WebhookId, WebhookPostId,
    };
    let schema = match name {
        "run" => schemas.subschema_for::<RunId>(),
        "task" => schemas.subschema_for::<TaskId>(),
        "approval" => schemas.subschema_for::<ApprovalId>(),
        "delivery" => schemas.subschema_for::<DeliveryId>(),
        "input" => schemas.subschema_for::<InputId>(),
        "token" => schemas.subschema_for::<TokenId>(),
        "webhook" => schemas.subschema_for::<WebhookId>(),
        "post" => schemas.subschema_for::<WebhookPostId>(),
        "namespace" => {
            let pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$";
            return json!({"type": "string", "pattern": pattern, "maxLength": NAMESPACE_CHARS_MAX});
        }
        // The name of something: what is no name of anything is not found.
        _ => return json!({"type": "string", "minLength": 1, "maxLength": SESSION_CHARS_MAX}),
    };
    schema.to_value()
}
