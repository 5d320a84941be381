//! Runtimes: tools that live elsewhere, each behind one wire.
//!
//! | type | wire | here |
//! |---|---|---|
//! | `http` | one request made of templates | [`HttpRuntime`] |
//! | `external` | envelopes of the contract over HTTP | [`ExternalRuntime`] |
//! | `webhook-callback` | the same, answered later | [`WebhookRuntime`], [`CallbackDesk`] |
//! | `grpc` | the same over gRPC (feature `grpc`) | `GrpcRuntime` |
//! | `mcp` | MCP over pipes and HTTP | [`McpRuntime`] |
//! | `a2a` | another agent | [`A2aRuntime`] |
//! | `cli` | a program with arguments, in a sandbox | [`CliRuntime`] |
//!
//! A runtime makes one attempt and nothing else: permission, credentials, retries, redaction and bounds for the model are the
//! work of the guarded path in `provost-tool`. Every one of them goes out through [`provost_net`], passes the
//! [`conformance`] suite, and ends within its deadline whatever the other side does.
//!
//! An OpenAPI document becomes tools of type `http`:
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
    CALLBACK_KEY_BYTES, CALLBACK_TOKEN_HEADER, CALLBACK_URL_HEADER, Callback, CallbackDesk,
    CallbackError, WebhookOptions, WebhookRuntime,
};
pub use http::envelope::ExternalRuntime;
pub use mcp::{CommandAllowList, McpRuntime, Program};
pub use openapi::{Imported, LeftOut, OpenApiError, OpenApiOptions, import_openapi, read_openapi};
pub use process::{CliOptions, CliRuntime};
pub use sandbox::{Sandbox, Wanted};
pub use transport::client::{ATTEMPT_HEADER, Outbound, REQUEST_ID_HEADER};
pub use transport::fault::{DETAIL_OUTCOME, DETAIL_RETRY_AFTER, DETAIL_STATUS};
