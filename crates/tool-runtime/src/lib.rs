//! Tool runtimes: the transports that execute declared tools.
//!
//! | type | transport | runtime |
//! |---|---|---|
//! | `http` | one HTTP request, built from templates | [`HttpRuntime`] |
//! | `external` | envelopes of the tool contract over HTTP | [`ExternalRuntime`] |
//! | `webhook-callback` | envelopes over HTTP with a late response | [`CallbackRuntime`], [`CallbackRegistry`] |
//! | `grpc` | envelopes over gRPC (feature `grpc`) | `GrpcRuntime` |
//! | `mcp` | MCP over pipes or HTTP | [`McpRuntime`] |
//! | `a2a` | A2A agents | [`A2aRuntime`] |
//! | `cli` | a program in a sandbox | [`ProcessRuntime`] |
//!
//! A runtime makes one attempt. `provost-tool` handles authorization, credentials, retries, redaction and size limits.
//! Every runtime uses [`provost_net`] for network access, passes the [`conformance`] suite, and ends at its deadline.
//!
//! An OpenAPI document is imported as tools of type `http`:
//!
//! ```
//! use provost_tool_runtime::{OpenApiOptions, import_openapi};
//! use serde_json::json;
//!
//! let document = json!({
//!     "openapi": "3.1.0",
//!     "servers": [{ "url": "https://shop.example/v1" }],
//!     "paths": { "/pears/{id}": { "get": {
//!         "operationId": "getPear",
//!         "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "integer" } }],
//!     } } },
//! });
//! let imported = import_openapi(&document, &OpenApiOptions::default())?;
//! assert_eq!(imported.tools[0].name, "getPear");
//! assert_eq!(imported.tools[0].endpoint, "https://shop.example/v1/pears/{{ args[\"id\"] }}");
//! # Ok::<_, provost_tool_runtime::OpenApiError>(())
//! ```

mod a2a;
pub mod conformance;
mod credentials;
#[cfg(feature = "grpc")]
pub mod grpc;
mod http;
mod limits;
mod mcp;
mod openapi;
mod process;
mod sandbox;
mod transport;

pub use a2a::A2aRuntime;
pub use credentials::{AuthInjector, TOKENS_MAX};
#[cfg(feature = "grpc")]
pub use grpc::GrpcRuntime;
pub use http::HttpRuntime;
pub use http::callback::{
    CALLBACK_KEY_BYTES, CALLBACK_TOKEN_HEADER, CALLBACK_URL_HEADER, Callback, CallbackError,
    CallbackOptions, CallbackRegistry, CallbackRuntime,
};
pub use http::envelope::ExternalRuntime;
pub use mcp::{CommandAllowList, McpRuntime, StdioServer};
pub use openapi::{
    ImportResult, OpenApiError, OpenApiOptions, SkippedOperation, import_openapi, read_openapi,
};
pub use process::{ProcessOptions, ProcessRuntime};
pub use sandbox::{SandboxConfig, SandboxRequest};
pub use transport::client::{ATTEMPT_HEADER, REQUEST_ID_HEADER, ToolHttpClient};
pub use transport::error::{DETAIL_OUTCOME, DETAIL_RETRY_AFTER, DETAIL_STATUS};
