//! Limits of tool runtimes.

use std::time::Duration;

/// Maximum size of a tool's response after decompression.
pub(crate) const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum size that is read of an error response.
pub(crate) const FAILURE_BYTES_MAX: usize = 4 * 1024;
/// Maximum length of foreign text in an error.
pub(crate) const FAILURE_CHARS_MAX: usize = 400;
/// Maximum size of a request after its templates are rendered.
pub(crate) const REQUEST_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum number of redirects of a read-only request.
pub(crate) const REDIRECTS_MAX: u8 = 5;
/// Maximum number of steps for rendering one template.
pub(crate) const TEMPLATE_FUEL: u64 = 200_000;
/// Maximum length of a file name.
pub(crate) const FILE_NAME_CHARS_MAX: usize = 120;
/// Maximum time that a service can ask to wait. Longer times are reduced to it.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// Timeout for notifying a server of a cancelled call.
pub(crate) const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum size of an OpenAPI document.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum number of tools of one OpenAPI document.
pub(crate) const DOCUMENT_TOOLS_MAX: usize = 2_000;
/// Maximum depth of references in a schema.
pub(crate) const REFERENCE_DEPTH_MAX: usize = 24;
/// Maximum number of values of one input schema after its references are inlined.
pub(crate) const SCHEMA_NODES_MAX: usize = 20_000;
/// Maximum length of an imported description.
pub(crate) const DESCRIPTION_CHARS_MAX: usize = 1_024;

/// First poll interval for late responses.
pub(crate) const POLL_DEFAULT: Duration = Duration::from_secs(2);
/// Maximum poll interval for late responses.
pub(crate) const POLL_MAX: Duration = Duration::from_secs(30);
/// Maximum number of consecutive failed polls.
pub(crate) const POLL_FAILURES_MAX: u32 = 5;
/// Maximum number of calls that wait for a callback.
pub(crate) const CALLBACKS_MAX: usize = 10_000;

/// First poll interval for the task of an agent.
pub(crate) const TASK_POLL_DEFAULT: Duration = Duration::from_millis(500);
/// Maximum poll interval for the task of an agent.
pub(crate) const TASK_POLL_MAX: Duration = Duration::from_secs(5);
/// Maximum size of an agent card.
pub(crate) const CARD_BYTES_MAX: usize = 256 * 1024;
/// Time for which an agent card is cached.
pub(crate) const CARD_TTL: Duration = Duration::from_secs(300);
/// Maximum number of cached agent cards.
pub(crate) const CARDS_MAX: usize = 256;
/// Maximum number of parts in the response of an agent.
pub(crate) const PARTS_MAX: usize = 256;

/// Maximum number of open gRPC channels.
#[cfg(feature = "grpc")]
pub(crate) const CHANNELS_MAX: usize = 256;
