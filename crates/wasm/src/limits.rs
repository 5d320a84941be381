//! Limits of modules and calls.

use std::time::Duration;

/// Maximum size of a module, in bytes.
pub const MODULE_BYTES_MAX: u64 = 64 << 20;
/// Maximum size of a compiled module in the cache, in bytes.
pub(crate) const COMPILED_BYTES_MAX: u64 = 512 << 20;
/// Maximum memory of one module, whatever its manifest declares, in bytes.
pub const MEMORY_BYTES_MAX: u64 = 2 << 30;
/// Default memory budget of all calls together, in bytes.
pub const MEMORY_BYTES_TOTAL_DEFAULT: u64 = 2 << 30;
/// Maximum number of concurrent calls. Further calls wait.
pub const CALLS_MAX: usize = 1_024;
/// Maximum number of concurrent compilations. Each occupies one processor.
pub(crate) const COMPILES_MAX: usize = 2;
/// Maximum number of compiled modules in memory.
pub(crate) const MODULES_MAX: usize = 256;

/// Maximum number of elements of all tables of a module.
pub const TABLE_ELEMENTS_MAX: usize = 1 << 20;
/// Maximum number of tables of a module.
pub(crate) const TABLES_MAX: usize = 64;
/// Maximum number of memories of a module.
pub(crate) const MEMORIES_MAX: usize = 16;
/// Maximum number of instances of a component.
pub(crate) const INSTANCES_MAX: usize = 64;
/// Maximum number of memories of all calls. Each reserves address space; 2,048 of them reserve 8 TiB.
pub(crate) const MEMORIES_TOTAL: u32 = 2_048;
/// Maximum number of tables, and of instances, of all calls.
pub(crate) const TABLES_TOTAL: u32 = 4_096;
/// Maximum size of an instance without its memories and tables, in bytes: its globals, and a few bytes per function.
pub(crate) const INSTANCE_BYTES_MAX: usize = 16 << 20;
/// Bytes of a memory or stack that stay resident after a call. They are cleared; the remaining pages are returned to
/// the system.
pub(crate) const RESIDENT_BYTES: usize = 64 << 10;
/// Bytes of a table that stay resident after a call.
pub(crate) const RESIDENT_TABLE_BYTES: usize = 4 << 10;
/// Maximum stack size of a module, in bytes.
pub(crate) const STACK_BYTES: usize = 512 << 10;
/// Stack size of a call, in bytes: the stack of the module and of the host functions below it.
pub(crate) const CALL_STACK_BYTES: usize = 1 << 20;

/// Maximum output on both streams together, in bytes.
pub const OUTPUT_BYTES_MAX: usize = 4 << 20;
/// Bytes of standard error that are kept for error messages.
pub(crate) const STDERR_BYTES_MAX: usize = 4 << 10;
/// Maximum length of module text in an error message, in characters.
pub(crate) const EXCERPT_CHARS_MAX: usize = 400;
/// Maximum number of buffers of one read or write.
pub(crate) const IO_VECTORS_MAX: u32 = 1_024;
/// Maximum number of random bytes per call of the WASI function.
pub(crate) const RANDOM_BYTES_MAX: u32 = 64 << 10;
/// Maximum number of open resources of a component.
pub(crate) const RESOURCES_MAX: usize = 1_024;

/// Maximum number of log messages per call. Further messages are dropped.
pub(crate) const LOG_LINES_MAX: u32 = 256;
/// Maximum length of a log message, in bytes.
pub(crate) const LOG_BYTES_MAX: u32 = 4 << 10;
/// Maximum number of HTTP requests per call.
pub(crate) const REQUESTS_MAX: u32 = 64;
/// Maximum size of a request, and of a response, in bytes.
pub(crate) const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Maximum length of a key, in bytes.
pub(crate) const KEY_BYTES_MAX: u32 = 256;
/// Maximum size of a value, in bytes.
pub(crate) const VALUE_BYTES_MAX: u32 = 64 << 10;
/// Maximum number of keys of a tool.
pub(crate) const KEYS_MAX: usize = 1_000;

/// Time slice of a module.
pub(crate) const TICK: Duration = Duration::from_millis(2);
/// Number of ticks after the last call before the ticker sleeps, so that consecutive calls need not wake it.
pub(crate) const IDLE_TICKS: u32 = 50;
/// Time limit of fetching a module.
pub(crate) const FETCH_TIMEOUT: Duration = Duration::from_secs(60);
