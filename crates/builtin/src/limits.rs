//! Limits of the built-in tools.

use std::time::Duration;

use provost_core::usage::limits::TOOL_OUTPUT_BYTES_MAX;

/// Maximum size of an output with its notes, in bytes.
pub const OUTPUT_BYTES_MAX: usize = TOOL_OUTPUT_BYTES_MAX;
/// Maximum number of lines of an output.
pub const OUTPUT_LINES_MAX: usize = 2_000;
/// Bytes of an output that are reserved for notes around the content.
pub(crate) const NOTES_BYTES: usize = 1_024;
/// Maximum size of the content of an output, in bytes.
pub(crate) const CONTENT_BYTES_MAX: usize = OUTPUT_BYTES_MAX - NOTES_BYTES;

/// Number of bytes at the start of a file that decide whether it is text.
pub const SNIFF_BYTES: usize = 8 * 1024;
/// Maximum number of bytes before the first line to read.
pub const READ_SEEK_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Maximum number of bytes that are scanned after the shown lines, to count the remaining ones.
pub const READ_COUNT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Maximum size of the content for `write`, in bytes.
pub const WRITE_BYTES_MAX: usize = 1024 * 1024;
/// Maximum size of a file for `edit`, in bytes.
pub const EDIT_FILE_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// Maximum number of matches that are examined to verify an edit.
pub(crate) const VERIFY_MATCHES_MAX: usize = 64;

/// Maximum length of a pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 1_000;
/// Maximum size of a compiled pattern, in bytes.
pub(crate) const PATTERN_COMPILED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Default number of matches of a search.
pub const SEARCH_MATCHES_DEFAULT: u64 = 100;
/// Maximum number of matches of a search.
pub const SEARCH_MATCHES_MAX: u64 = 1_000;
/// Maximum number of lines around a match.
pub const SEARCH_CONTEXT_MAX: u64 = 10;
/// Maximum length of a shown line, in bytes.
pub const SEARCH_LINE_BYTES_MAX: usize = 400;
/// Maximum number of bytes that a search reads.
pub const SEARCH_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Maximum memory of the search in one file, in bytes. A longer line ends the search of its file.
pub(crate) const SEARCH_HEAP_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum length of an expression, in bytes.
pub const EXPRESSION_BYTES_MAX: usize = 1_000;
/// Maximum nesting of parentheses, signs, powers and functions.
pub const EXPRESSION_DEPTH_MAX: u32 = 64;
/// Maximum size of an exact number, in bits: about 3,000 digits.
pub const NUMBER_BITS_MAX: u64 = 10_000;
/// Number of digits of a number without a finite decimal form.
pub const NUMBER_DIGITS: usize = 30;

/// Maximum size of a decompressed page, in bytes.
pub const FETCH_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Time limit of fetching a page, from the first connection to the last byte.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of redirects. Each address is checked like the first one.
pub const FETCH_REDIRECTS_MAX: u8 = 5;
/// Maximum size of the text of a page, in bytes. It can exceed the size of the page, because relative links are
/// expanded.
pub const FETCH_TEXT_BYTES_MAX: usize = 20 * 1024 * 1024;
/// Maximum number of elements and texts of a page.
pub(crate) const PAGE_NODES_MAX: usize = 250_000;
/// Maximum nesting of elements. Deeper elements become siblings.
pub(crate) const PAGE_DEPTH_MAX: usize = 200;

/// Maximum length of a command line, in bytes.
pub const COMMAND_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of words of a command line that a rule can allow.
pub const COMMAND_WORDS_MAX: usize = 4_096;
/// Maximum time limit of a command, whatever its profile says.
pub const SHELL_TIMEOUT_MAX: Duration = Duration::from_secs(3_600);
/// Maximum number of concurrent background jobs.
pub const SHELL_JOBS_MAX: usize = 8;
/// Maximum number of remembered jobs, including finished ones.
pub const SHELL_JOBS_KEPT_MAX: usize = 64;
/// Maximum size of a job's unread output, in bytes.
pub const SHELL_JOB_OUTPUT_BYTES_MAX: usize = 48 * 1024;
/// Number of characters of a command line that a result quotes.
pub(crate) const SHELL_LINE_SHOWN_MAX: usize = 200;
