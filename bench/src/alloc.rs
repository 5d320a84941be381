//! Counting allocator: number of calls and bytes, per thread.
//!
//! Per thread, because a shared counter would cost more than the allocations that it counts.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

use mimalloc::MiMalloc;

/// Allocations of a thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Number of allocator calls, including reallocations.
    pub(crate) calls: u64,
    /// Allocated bytes minus freed bytes.
    pub(crate) live_bytes: i64,
}

thread_local! {
    static COUNTS: Cell<Counts> = const { Cell::new(Counts { calls: 0, live_bytes: 0 }) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts the allocations of this thread during `work`. The returned value of `work` is still alive when they are read.
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> (T, Counts) {
    let before = COUNTS.get();
    let value = work();
    let after = COUNTS.get();
    let counts = Counts {
        calls: after.calls - before.calls,
        live_bytes: after.live_bytes - before.live_bytes,
    };
    (value, counts)
}

fn note(calls: u64, bytes: i64) {
    // A thread that exits has no counter any more.
    let _gone = COUNTS
        .try_with(|counts| {
            let Counts { calls: old, live_bytes } = counts.get();
            counts.set(Counts { calls: old + calls, live_bytes: live_bytes + bytes });
        })
        .is_err();
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[expect(
    unsafe_code,
    reason = "an allocator cannot be written without; every call goes to another one unchanged"
)]
// SAFETY: each method passes its arguments to that allocator unchanged, and counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, signed(layout.size()));
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(1, signed(layout.size()));
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(0, -signed(layout.size()));
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { MiMalloc.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(1, signed(size) - signed(layout.size()));
        // SAFETY: the caller upholds the contract of `realloc`.
        unsafe { MiMalloc.realloc(block, layout, size) }
    }
}
