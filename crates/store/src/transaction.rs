//! Transaction functions, independent of the database.
//!
//! A transaction function is written for a database with many concurrent writers. It may run more than once, and only
//! its last attempt is committed. It therefore takes values and returns values, and its caller acts after the commit.
//! Five rules make this safe:
//!
//! 1. **It is repeatable.** Ids come from [`Tx::id`](crate::Tx::id) and the time from [`Tx::now`](crate::Tx::now);
//!    both are the same in every attempt. The function changes nothing outside of the transaction, and its wake-ups
//!    are sent after the commit.
//! 2. **It locks rows before it changes them.** It reads a row of an aggregate with a `lock` function before it
//!    writes a value that depends on that row. The lock of the root protects the rows of the aggregate: a session its
//!    messages; a task its inputs; a run its steps, attempts and approvals. A row that the transaction inserted is
//!    locked.
//! 3. **Or the statement carries its own fence.** A statement that goes through
//!    [`Tx::execute_fenced`](crate::Tx::execute_fenced) or one of its variants is correct regardless of earlier
//!    reads: its `SET` is constant or relative to the stored value, or its `WHERE` repeats every fact that the caller
//!    relies on and the caller checks the number of changed rows. The statement locks the rows that it changes.
//! 4. **It locks in a fixed order**: session, task, run; then execution class, concurrency limit, budget, outbox. The
//!    three rows of a parent come before those of its child. `run::lock` and `task::lock` follow this order.
//! 5. **It names the columns that it changes.** [`Locked::save`](crate::Locked::save) stores the columns that differ
//!    from the row as it was read. Separate statements raise counters; counters are never stored from memory.
//!
//! [`StoreOptions::check_transactions`](crate::StoreOptions::check_transactions) enforces rules 1 to 3 in tests: each
//! job runs, is rolled back and runs again. Both attempts must make the same changes, and an `UPDATE` fails if it
//! reaches a row whose aggregate is not locked. On SQLite a lock is a plain read, because SQLite has one writer at a
//! time.

pub(crate) mod aggregate;

pub(crate) mod change;
pub(crate) mod check;
pub(crate) mod filter;
pub(crate) mod ids;
pub(crate) mod lock;
pub(crate) mod text;
pub(crate) mod tx;
pub(crate) mod value;
