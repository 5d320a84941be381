//! What nothing here goes beyond.

use std::time::Duration;

/// Bytes of a module.
pub const MODULE_BYTES_MAX: u64 = 64 << 20;
/// Bytes of a compiled module in the cache.
pub(crate) const COMPILED_BYTES_MAX: u64 = 512 << 20;
/// Bytes of memory that one module may ask for, whatever its manifest says.
pub const MEMORY_BYTES_MAX: u64 = 2 << 30;
/// Bytes of memory of all calls together, if the operator says nothing.
pub const MEMORY_BYTES_TOTAL_DEFAULT: u64 = 2 << 30;
/// Calls at the same time; more wait for room.
pub const CALLS_MAX: usize = 1_024;
/// Modules that are compiled at the same time: each takes a processor for itself.
pub(crate) const COMPILES_MAX: usize = 2;
/// Compiled modules that are kept in memory.
pub(crate) const MODULES_MAX: usize = 256;

/// Elements of all tables of a module together.
pub const TABLE_ELEMENTS_MAX: usize = 1 << 20;
/// Tables of a module.
pub(crate) const TABLES_MAX: usize = 64;
/// Memories of a module.
pub(crate) const MEMORIES_MAX: usize = 16;
/// Instances that one component is made of.
pub(crate) const INSTANCES_MAX: usize = 64;
/// Memories of all calls together. Each has its place in the address space, of which 2,048 take 8 TiB.
pub(crate) const MEMORIES_TOTAL: u32 = 2_048;
/// Tables, and instances, of all calls together.
pub(crate) const TABLES_TOTAL: u32 = 4_096;
/// Bytes that an instance takes beside its memories and tables: its globals, and a few for each of its functions.
pub(crate) const INSTANCE_BYTES_MAX: usize = 16 << 20;
/// Bytes of a memory, and of a stack, that stay at hand for the next call when one ends: these are cleared, the rest is given back.
pub(crate) const KEPT_BYTES: usize = 64 << 10;
/// The same of a table.
pub(crate) const KEPT_TABLE_BYTES: usize = 4 << 10;
/// Bytes of the stack of a module's own calls.
pub(crate) const STACK_BYTES: usize = 512 << 10;
/// Bytes of the stack that a call runs on: the module's, and what the machine needs below it.
pub(crate) const CALL_STACK_BYTES: usize = 1 << 20;

/// Bytes that a module may write to both of its outputs together.
pub const OUTPUT_BYTES_MAX: usize = 4 << 20;
/// Bytes of its error output that are kept to say why it failed.
pub(crate) const WORDS_BYTES_MAX: usize = 4 << 10;
/// Characters of foreign text in an error.
pub(crate) const WORDS_CHARS_MAX: usize = 400;
/// Parts that one read or write of a module may be made of.
pub(crate) const PARTS_MAX: u32 = 1_024;
/// Bytes of chance that one call of the guest may ask for.
pub(crate) const RANDOM_BYTES_MAX: u32 = 64 << 10;
/// Resources of a component that are open at the same time.
pub(crate) const RESOURCES_MAX: usize = 1_024;

/// Lines that a module may log in one call; what comes after is left out.
pub(crate) const LOG_LINES_MAX: u32 = 256;
/// Bytes of one line of the log.
pub(crate) const LOG_BYTES_MAX: u32 = 4 << 10;
/// Requests that a module may make in one call.
pub(crate) const REQUESTS_MAX: u32 = 64;
/// Bytes of one request, and of one answer to it.
pub(crate) const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Bytes of a key.
pub(crate) const KEY_BYTES_MAX: u32 = 256;
/// Bytes of a value.
pub(crate) const VALUE_BYTES_MAX: u32 = 64 << 10;
/// Keys of one tool.
pub(crate) const KEYS_MAX: usize = 1_000;

/// How long a module runs before others have their turn.
pub(crate) const TICK: Duration = Duration::from_millis(2);
/// How many ticks the clock goes on when nothing runs, so that calls one after the other need not start it.
pub(crate) const IDLE_TICKS: u32 = 50;
/// How long fetching a module may take.
pub(crate) const FETCH_TIMEOUT: Duration = Duration::from_secs(60);
