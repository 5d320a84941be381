//! Description of an operation: path, access, input and responses.

use http::Method;
use provost_api::Scope;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use crate::config::AppOptions;
use crate::extract::{DescribeArgument, Input};
use crate::response::{DescribeResponse, ResponseDoc};

/// Maximum size of a request body without messages, in bytes.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Maximum size of a request body with messages, images and documents, in bytes.
const BODY_BYTES_LARGE_MAX: usize = 32 * 1024 * 1024;

/// Generates a schema and the schemas that it refers to.
pub(crate) type SchemaFn = fn(&mut SchemaGenerator) -> Value;

/// Returns a reference to the schema of a type.
pub(crate) fn schema_of<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Value {
    schemas.subschema_for::<T>().to_value()
}

/// Access requirement of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Any caller.
    Public,
    /// A caller with any valid token.
    Authenticated,
    /// A caller whose token has this scope.
    Scope(Scope),
}

/// A path parameter of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathParameter {
    pub(crate) name: &'static str,
    pub(crate) schema: SchemaFn,
}

/// Properties of an operation that do not follow from the types of its handler.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    id: &'static str,
    summary: &'static str,
    is_long_lived: bool,
    has_large_body: bool,
    is_metrics: bool,
}

/// Creates an operation. The generated clients name their methods after `id`.
pub(crate) fn op(id: &'static str, summary: &'static str) -> Operation {
    Operation { id, summary, is_long_lived: false, has_large_body: false, is_metrics: false }
}

impl Operation {
    /// Removes the time limit of the response, for streams and waits.
    pub(crate) fn long_lived(self) -> Self {
        Self { is_long_lived: true, ..self }
    }

    /// Permits a large body with images and documents.
    pub(crate) fn large_body(self) -> Self {
        Self { has_large_body: true, ..self }
    }

    /// Makes the operation public if the options of the server permit it.
    pub(crate) fn metrics(self) -> Self {
        Self { is_metrics: true, ..self }
    }
}

/// An operation. The types of its handler describe its input and its responses.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// Operation id, such as `submitTask`.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) access: Access,
    pub(crate) path_parameters: Vec<PathParameter>,
    pub(crate) input: Input,
    /// True if the operation reads `Idempotency-Key`.
    pub(crate) is_idempotent: bool,
    /// True if the operation reads `If-Match`.
    pub(crate) reads_if_match: bool,
    /// True if the operation reads `Last-Event-ID`.
    pub(crate) reads_last_event_id: bool,
    pub(crate) is_long_lived: bool,
    pub(crate) body_bytes_max: usize,
    pub(crate) responses: Vec<ResponseDoc>,
    /// True if the response has an `ETag`.
    pub(crate) has_etag: bool,
    is_metrics: bool,
}

impl Endpoint {
    /// Creates an operation without the description of its handler.
    pub(super) fn new(method: Method, path: String, operation: Operation) -> Self {
        let Operation { id, summary, is_long_lived, has_large_body, is_metrics } = operation;
        Self {
            method,
            path,
            id,
            summary,
            access: Access::Public,
            path_parameters: Vec::new(),
            input: Input::None,
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

    /// Returns the access requirement on a server with these options.
    pub(crate) fn access(&self, options: &AppOptions) -> Access {
        if self.is_metrics && options.open_metrics { Access::Public } else { self.access }
    }

    /// Returns the names of the path parameters, in order.
    pub(crate) fn path_names(&self) -> impl Iterator<Item = &str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Returns the tag of the operation, which follows from the first segment of its path after the namespace.
    pub(crate) fn tag(&self) -> &str {
        let rest = self.path.strip_prefix("/v1/namespaces/{namespace}/");
        let rest = rest
            .or_else(|| self.path.strip_prefix("/v1/").filter(|rest| rest.starts_with("tokens")));
        match rest.and_then(|rest| rest.split('/').next()) {
            None => "server",
            Some("classes") => "execution classes",
            Some("explain") => "explanations",
            Some("grants") => "standing approvals",
            Some("stream") => "event streams",
            Some(noun) => noun,
        }
    }
}

/// A handler whose types describe its operation. `T` is the tuple of its argument types.
pub(crate) trait Describe<T> {
    /// Adds the description of the handler.
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
