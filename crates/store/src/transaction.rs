//! Transaction functions, without a backend.
//!
//! A transaction function is written for a database with many writers. It may run more than once and only its last attempt
//! is kept, so it takes values and returns values, and the caller acts after the commit. Five rules make that true:
//!
//! 1. **It repeats itself.** Ids come from [`Tx::id`](crate::Tx::id) and the time from [`Tx::now`](crate::Tx::now): both are
//!    the same in every attempt. Nothing outside of the transaction is changed, and wake-ups wait for the commit.
//! 2. **It locks before it changes.** A row of an aggregate is read with a `lock_*` function before a value that depends on it
//!    is written. The lock of the root protects the rows below it: a session its entries; a task its inputs; a run its
//!    steps, attempts and approvals. A row that the transaction inserted is locked.
//! 3. **Or the statement carries its fence.** A statement that goes through [`Tx::execute_fenced`](crate::Tx::execute_fenced) or one of its siblings is right whatever
//!    was read before: its `SET` is relative to the stored value or a constant, or its `WHERE` repeats every fact that the
//!    caller relies on and the caller looks at the number of rows. It locks the rows that it changes.
//! 4. **It locks in order**: session, task, run; then execution class, concurrency limit, budget, outbox. The three rows of a
//!    parent come before those of its child, and `run::lock` and `task::lock` take them in this order.
//! 5. **It names the columns that it changes.** [`Locked::save`](crate::Locked::save) stores the columns that differ from
//!    what was read; counters are raised by statements of their own and never stored from memory.
//!
//! [`StoreOptions::check_transactions`](crate::StoreOptions::check_transactions) enforces the rules 1 to 3 in tests: each job
//! runs, is rolled back and runs again, both attempts must make the same changes, and an `UPDATE` fails if it reaches a row
//! whose aggregate is not locked. On SQLite a lock is a plain read, because there is one writer at a time.

pub(crate) mod aggregate;

pub(crate) mod check;
pub(crate) mod filter;
pub(crate) mod ids;
pub(crate) mod lock;
pub(crate) mod text;
pub(crate) mod tx;
pub(crate) mod value;
