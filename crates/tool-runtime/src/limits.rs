//! What nothing here goes beyond.

use std::time::Duration;

/// Bytes of the answer of a tool, unpacked.
pub(crate) const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes that are read of a body that only explains a failure.
pub(crate) const FAILURE_BYTES_MAX: usize = 4 * 1024;
/// Characters of foreign text in an error.
pub(crate) const FAILURE_CHARS_MAX: usize = 400;
/// Bytes of a request after its templates are filled in.
pub(crate) const REQUEST_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Redirects that are followed where nothing is changed by a request.
pub(crate) const REDIRECTS_MAX: u8 = 5;
/// Steps that filling in one template may take.
pub(crate) const TEMPLATE_FUEL: u64 = 200_000;
/// Bytes of the name of a file.
pub(crate) const FILE_NAME_CHARS_MAX: usize = 120;
/// The longest wait that a service may ask for; anything longer counts as this.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// Time for telling the other side that nobody waits any more.
pub(crate) const TAKE_BACK_TIMEOUT: Duration = Duration::from_secs(2);

/// Bytes of an OpenAPI document.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Tools of one OpenAPI document.
pub(crate) const DOCUMENT_TOOLS_MAX: usize = 2_000;
/// How deep a schema is followed into its references.
pub(crate) const REFERENCE_DEPTH_MAX: usize = 24;
/// Values of one input schema after its references are filled in.
pub(crate) const SCHEMA_NODES_MAX: usize = 20_000;
/// Characters of a description that comes from elsewhere.
pub(crate) const DESCRIPTION_CHARS_MAX: usize = 1_024;

/// The first pause between looks at a call that is answered later.
pub(crate) const POLL_DEFAULT: Duration = Duration::from_secs(2);
/// The longest pause between looks.
pub(crate) const POLL_MAX: Duration = Duration::from_secs(30);
/// Looks in a row that may fail before the call is given up.
pub(crate) const POLL_FAILURES_MAX: u32 = 5;
/// Calls that may wait for a callback at the same time.
pub(crate) const CALLBACKS_MAX: usize = 10_000;

/// The first pause between looks at the task of another agent.
pub(crate) const TASK_POLL_DEFAULT: Duration = Duration::from_millis(500);
/// The longest pause between looks at the task of another agent.
pub(crate) const TASK_POLL_MAX: Duration = Duration::from_secs(5);
/// Bytes of the card of an agent.
pub(crate) const CARD_BYTES_MAX: usize = 256 * 1024;
/// How long a card counts.
pub(crate) const CARD_TTL: Duration = Duration::from_secs(300);
/// Cards that are kept.
pub(crate) const CARDS_MAX: usize = 256;
/// Parts of the answer of another agent.
pub(crate) const PARTS_MAX: usize = 256;

/// Connections to gRPC servers that are kept.
#[cfg(feature = "grpc")]
pub(crate) const CHANNELS_MAX: usize = 256;
