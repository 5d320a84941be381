//! Every bound of the built-in tools, with its name.

use std::time::Duration;

use provost_core::usage::limits::TOOL_OUTPUT_BYTES_MAX;

/// Bytes of one output, its notes included: what a model is shown at most.
pub const OUTPUT_BYTES_MAX: usize = TOOL_OUTPUT_BYTES_MAX;
/// Lines of one output.
pub const OUTPUT_LINES_MAX: usize = 2_000;
/// Bytes that are kept free in an output for the words around the content.
pub(crate) const NOTES_BYTES: usize = 1_024;
/// Bytes of content in one output.
pub(crate) const CONTENT_BYTES_MAX: usize = OUTPUT_BYTES_MAX - NOTES_BYTES;

/// Bytes at the start of a file that tell whether it is text.
pub const SNIFF_BYTES: usize = 8 * 1024;
/// Bytes that are looked through for the line at which reading shall begin.
pub const READ_SEEK_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Bytes behind the shown lines that are looked through to count the rest.
pub const READ_COUNT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of content that `write` takes.
pub const WRITE_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a file that `edit` changes.
pub const EDIT_FILE_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// Places that are looked at to find out whether an edit has happened.
pub(crate) const PROOF_PLACES_MAX: usize = 64;

/// Bytes of a pattern.
pub const PATTERN_BYTES_MAX: usize = 1_000;
/// Bytes of a compiled pattern.
pub(crate) const PATTERN_COMPILED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Matches of one search unless it says otherwise.
pub const SEARCH_MATCHES_DEFAULT: u64 = 100;
/// Matches of one search.
pub const SEARCH_MATCHES_MAX: u64 = 1_000;
/// Lines around a match.
pub const SEARCH_CONTEXT_MAX: u64 = 10;
/// Bytes of a shown line.
pub const SEARCH_LINE_BYTES_MAX: usize = 400;
/// Bytes that one search reads.
pub const SEARCH_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Bytes that the search of one file holds in memory; a longer line ends the search of its file.
pub(crate) const SEARCH_HEAP_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes of an expression.
pub const EXPRESSION_BYTES_MAX: usize = 1_000;
/// Parentheses, signs, powers and functions inside each other.
pub const EXPRESSION_DEPTH_MAX: u32 = 64;
/// Bits of an exact number: about 3,000 digits.
pub const NUMBER_BITS_MAX: u64 = 10_000;
/// Digits of a number that has no end.
pub const NUMBER_DIGITS: usize = 30;

/// Bytes of a page, unpacked.
pub const FETCH_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Time for a page, from the first address to the last byte.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(30);
/// Redirects that are followed; each address is checked like the first.
pub const FETCH_REDIRECTS_MAX: u8 = 5;
/// Bytes of the text that is made of a page: many short links may become long ones.
pub const FETCH_TEXT_BYTES_MAX: usize = 20 * 1024 * 1024;
/// Elements and texts of a page.
pub(crate) const PAGE_NODES_MAX: usize = 250_000;
/// Elements inside each other; what is deeper is put beside.
pub(crate) const PAGE_DEPTH_MAX: usize = 200;

/// Bytes of a command line.
pub const COMMAND_BYTES_MAX: usize = 64 * 1024;
/// Words of a command line that a rule can allow.
pub const COMMAND_WORDS_MAX: usize = 4_096;
/// Time that a command may take at most, whatever its profile says.
pub const SHELL_TIMEOUT_MAX: Duration = Duration::from_secs(3_600);
/// Jobs in the background at the same time.
pub const SHELL_JOBS_MAX: usize = 8;
/// Jobs that are remembered, those that are over included.
pub const SHELL_JOBS_KEPT_MAX: usize = 64;
/// Bytes of a job's output that wait to be read.
pub const SHELL_JOB_OUTPUT_BYTES_MAX: usize = 48 * 1024;
/// Characters of a command line that are said back.
pub(crate) const SHELL_LINE_SHOWN_MAX: usize = 200;
