//! Limits of one server: time, bytes and counts.

use std::time::Duration;

/// Maximum length of a server's name. It is the prefix of tool names, which have at most 64 characters.
pub(crate) const SERVER_NAME_CHARS_MAX: usize = 32;
/// Maximum number of arguments, of environment variables and of headers.
pub(crate) const ARGUMENTS_MAX: usize = 256;
/// Maximum size of one argument or environment variable.
pub(crate) const ARGUMENT_BYTES_MAX: usize = 128 * 1024;

/// Default timeout for connecting to a server.
pub(crate) const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Default timeout of one call.
pub(crate) const CALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
/// Default time without a call after which a connection is closed.
pub(crate) const IDLE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(600);
/// Maximum of all timeouts in a definition.
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);
/// Additional time of a tool's timeout, so that the error of the call comes first.
pub(crate) const CALL_GRACE: Duration = Duration::from_secs(5);
/// Timeout for writing one message.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// First cooldown of a failed server.
pub(crate) const BACKOFF_FIRST: Duration = Duration::from_millis(500);
/// Maximum cooldown of a failed server.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Lifetime after which a connection counts as stable and its end does not count as a failure.
pub(crate) const STABLE_AFTER: Duration = Duration::from_secs(10);

/// Interval for checking whether a program has exited without closing its pipes.
pub(crate) const PROGRAM_POLL: Duration = Duration::from_secs(1);
/// Time for a program to exit after its input was closed.
pub(crate) const EXIT_GRACE: Duration = Duration::from_secs(2);
/// Time for a program to exit after a termination signal.
pub(crate) const SIGNAL_GRACE: Duration = Duration::from_secs(1);
/// Time for a killed program to be gone.
pub(crate) const KILL_GRACE: Duration = Duration::from_secs(5);
/// Timeout for closing an HTTP session.
pub(crate) const GOODBYE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of one message from a server. The largest stored result has 20 MiB, and base 64 adds a third.
pub(crate) const MESSAGE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Maximum time that a server can ask to wait. Longer times are reduced to it.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// Maximum size of an HTTP error response.
pub(crate) const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of consecutive lines on a program's standard output that are not messages.
pub(crate) const NOISE_LINES_MAX: u32 = 1000;
/// Size of the end of a program's standard error that errors include.
pub(crate) const STDERR_BYTES_MAX: usize = 1024;
/// Maximum number of unanswered requests from a server.
pub(crate) const SERVER_REQUESTS_MAX: usize = 128;
/// Maximum number of forwarded progress notifications of one call.
pub(crate) const PROGRESS_MAX: u32 = 1000;
/// Number of progress listeners above which the listeners of ended calls are removed.
pub(crate) const LISTENER_SWEEP: usize = 256;
/// Maximum number of input requests of a server during one call.
pub(crate) const INPUT_ROUNDS_MAX: usize = 8;
/// Maximum size of a server's text in an error.
pub(crate) const DETAIL_BYTES_MAX: usize = 2 * 1024;

/// Maximum size of such a text that is searched for secrets. A longer text is truncated to it first.
pub(crate) const FAILURE_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of pages of a tool list.
pub(crate) const LIST_PAGES_MAX: usize = 64;
/// Maximum number of tools of one server.
pub(crate) const TOOLS_MAX: usize = 1024;
/// Maximum size of a tool's name at the server.
pub(crate) const TOOL_NAME_BYTES_MAX: usize = 256;
/// Maximum size of the schema of one tool.
pub(crate) const SCHEMA_BYTES_MAX: usize = 128 * 1024;
/// Maximum size of all schemas and descriptions of one server.
pub(crate) const LIST_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Maximum size of the description of one tool.
pub(crate) const DESCRIPTION_BYTES_MAX: usize = 16 * 1024;
/// Minimum lifetime of a tool list, because it is requested in every turn.
pub(crate) const LIST_TTL_MIN: Duration = Duration::from_secs(1);

/// Maximum number of parts of one result.
pub(crate) const PARTS_MAX: usize = 256;
