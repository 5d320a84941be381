//! One operation: where it is, who may call it, what it takes and what it returns.

use http::Method;
use provost_api::Scope;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use crate::config::AppOptions;
use crate::extract::{DescribeArgument, Input};
use crate::response::{DescribeResponse, ResponseDoc};

/// Bytes of a body, unless the operation carries messages.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a body with messages, pictures and documents.
const BODY_BYTES_LARGE_MAX: usize = 32 * 1024 * 1024;

/// Makes a schema, and adds the schemas it refers to.
pub(crate) type SchemaFn = fn(&mut SchemaGenerator) -> Value;

/// Makes a reference to the schema of a type.
pub(crate) fn schema_of<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Value {
    schemas.subschema_for::<T>().to_value()
}

/// Who may call an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everyone.
    Public,
    /// A caller with any valid token.
    Authenticated,
    /// A caller whose token has this scope.
    Scope(Scope),
}

/// A value in the path of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathParameter {
    pub(crate) name: &'static str,
    pub(crate) schema: SchemaFn,
}

/// What a route line says about an operation besides its types.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    id: &'static str,
    summary: &'static str,
    is_long_lived: bool,
    has_large_body: bool,
    is_metrics: bool,
}

/// Names an operation: `id` is its name in clients.
pub(crate) fn op(id: &'static str, summary: &'static str) -> Operation {
    Operation { id, summary, is_long_lived: false, has_large_body: false, is_metrics: false }
}

impl Operation {
    /// The response has no time limit: it is a stream, or a wait with a timeout of its own.
    pub(crate) fn long_lived(self) -> Self {
        Self { is_long_lived: true, ..self }
    }

    /// The body may carry messages with pictures and documents.
    pub(crate) fn large_body(self) -> Self {
        Self { has_large_body: true, ..self }
    }

    /// The operation is public if the options open the metrics.
    pub(crate) fn metrics(self) -> Self {
        Self { is_metrics: true, ..self }
    }
}

/// One operation. The types of its handler describe what it takes and returns.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// The name in clients: `submitTask`.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) access: Access,
    pub(crate) path_parameters: Vec<PathParameter>,
    pub(crate) input: Input,
    /// True if it reads `Idempotency-Key`.
    pub(crate) is_idempotent: bool,
    /// True if it reads `If-Match`.
    pub(crate) reads_if_match: bool,
    /// True if it reads `Last-Event-ID`.
    pub(crate) reads_last_event_id: bool,
    pub(crate) is_long_lived: bool,
    pub(crate) body_bytes_max: usize,
    pub(crate) responses: Vec<ResponseDoc>,
    /// True if its response has an `ETag`.
    pub(crate) has_etag: bool,
    is_metrics: bool,
}

impl Endpoint {
    /// An operation whose arguments and response are not described yet.
    pub(super) fn new(method: Method, path: String, operation: Operation) -> Self {
        let Operation { id, summary, is_long_lived, has_large_body, is_metrics } = operation;
        Self {
            method,
            path,
            id,
            summary,
            access: Access::Public,
            path_parameters: Vec::new(),
            input: Input::Nothing,
            is_idempotent: false,
            reads_if_match: false,
            reads_last_event_id: false,
            is_long_lived,
            body_bytes_max: if has_large_body { BODY_BYTES_LARGE_MAX } else { BODY_BYTES_MAX },
            responses: Vec::new(),
            has_etag: false,
            is_metrics,
        }
    }

    /// Returns who may call it at a server with these options.
    pub(crate) fn access(&self, options: &AppOptions) -> Access {
        if self.is_metrics && options.open_metrics { Access::Public } else { self.access }
    }

    /// Returns the names in the path, in order.
    pub(crate) fn path_names(&self) -> impl Iterator<Item = &str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Returns the noun of the path: its first word behind the namespace.
    pub(crate) fn tag(&self) -> &str {
        let rest = self.path.strip_prefix("/v1/namespaces/{namespace}/");
        let rest = rest
            .or_else(|| self.path.strip_prefix("/v1/").filter(|rest| rest.starts_with("tokens")));
        rest.and_then(|rest| rest.split('/').next()).unwrap_or("server")
    }
}

/// A handler whose argument and response types describe its operation. `T` lists the types of its arguments.
pub(crate) trait Describe<T> {
    /// Adds what the types say.
    fn describe(endpoint: &mut Endpoint);
}

macro_rules! describe_handler {
    ($($argument:ident),+) => {
        impl<F, M, Fut, R, E, $($argument),+> Describe<(M, $($argument,)+)> for F
        where
            F: Fn($($argument),+) -> Fut,
            Fut: Future<Output = Result<R, E>>,
            R: DescribeResponse,
            $($argument: DescribeArgument,)+
        {
            fn describe(endpoint: &mut Endpoint) {
                $($argument::describe(endpoint);)+
                R::describe(endpoint);
            }
        }
    };
}

describe_handler!(A1);
describe_handler!(A1, A2);
describe_handler!(A1, A2, A3);
describe_handler!(A1, A2, A3, A4);
describe_handler!(A1, A2, A3, A4, A5);
