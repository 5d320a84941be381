//! What one server may take: time, bytes, numbers. Each bound has a name.

use std::time::Duration;

/// Characters of a server's name: it begins the names of its tools, which have 64.
pub(crate) const SERVER_NAME_CHARS_MAX: usize = 32;
/// Arguments, variables or headers of a definition.
pub(crate) const ARGUMENTS_MAX: usize = 256;
/// Bytes of one argument or variable.
pub(crate) const ARGUMENT_BYTES_MAX: usize = 128 * 1024;

/// Time until a server can be used unless its definition says otherwise.
pub(crate) const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Time one call may take unless the definition says otherwise.
pub(crate) const CALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
/// Time without a call after which a connection is closed unless the definition says otherwise.
pub(crate) const IDLE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(600);
/// The longest timeout that a definition may ask for.
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);
/// What a tool's own time has beyond the time of its call, so that the call's error comes first.
pub(crate) const CALL_GRACE: Duration = Duration::from_secs(5);
/// Time until a message must be taken by the server.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The first wait before a server that failed is tried again.
pub(crate) const BACKOFF_FIRST: Duration = Duration::from_millis(500);
/// The longest wait before a server that failed is tried again.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// A connection that lasted this long counts as a good one, however it ended.
pub(crate) const STABLE_AFTER: Duration = Duration::from_secs(10);

/// How often it is looked whether a program has ended without closing its pipes.
pub(crate) const PROGRAM_POLL: Duration = Duration::from_secs(1);
/// Time a program has to end by itself once its input is closed.
pub(crate) const EXIT_GRACE: Duration = Duration::from_secs(2);
/// Time a program has to end once it was asked to by a signal.
pub(crate) const SIGNAL_GRACE: Duration = Duration::from_secs(1);
/// Time until a killed program must be gone.
pub(crate) const KILL_GRACE: Duration = Duration::from_secs(5);
/// Time until an HTTP session must be closed.
pub(crate) const GOODBYE_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of one message of a server. The largest result that is kept has 20 MiB, which base 64 makes a third larger.
pub(crate) const MESSAGE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The longest wait that a server may ask for; anything longer counts as this.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// Bytes of an HTTP answer that is an error.
pub(crate) const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;
/// Lines in a row on a program's standard output that are no messages.
pub(crate) const NOISE_LINES_MAX: u32 = 1000;
/// Bytes of the end of a program's standard error that are kept for errors.
pub(crate) const STDERR_BYTES_MAX: usize = 1024;
/// Requests of a server to us that wait for our answers.
pub(crate) const SERVER_REQUESTS_MAX: usize = 128;
/// Reports of progress of one call that are passed on.
pub(crate) const PROGRESS_MAX: u32 = 1000;
/// Calls whose progress is followed before those that ended are swept out.
pub(crate) const FOLLOWED_SWEEP: usize = 256;
/// Rounds in which a server may ask for input before it answers a call.
pub(crate) const INPUT_ROUNDS_MAX: usize = 8;
/// Bytes of a text of the server, or about it, in an error.
pub(crate) const DETAIL_BYTES_MAX: usize = 2 * 1024;

/// Bytes of such a text that are looked through for secrets; what is longer is cut there first.
pub(crate) const FAILURE_BYTES_MAX: usize = 64 * 1024;

/// Pages of one list of tools.
pub(crate) const LIST_PAGES_MAX: usize = 64;
/// Tools of one server.
pub(crate) const TOOLS_MAX: usize = 1024;
/// Bytes of a tool's name as the server has it.
pub(crate) const TOOL_NAME_BYTES_MAX: usize = 256;
/// Bytes of the schema of one tool.
pub(crate) const SCHEMA_BYTES_MAX: usize = 128 * 1024;
/// Bytes of all schemas and descriptions of one server.
pub(crate) const LIST_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of the description of one tool.
pub(crate) const DESCRIPTION_BYTES_MAX: usize = 16 * 1024;
/// The shortest time that a list stays fresh, whatever the server says: it is asked for in every turn.
pub(crate) const LIST_TTL_MIN: Duration = Duration::from_secs(1);

/// Parts of one result.
pub(crate) const PARTS_MAX: usize = 256;
