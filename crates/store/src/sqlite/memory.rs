//! SQLite's memory, from the allocator of the program.
//!
//! The C library's, which it would use otherwise, gives a thread that is not the first its memory page by page and takes it back as
//! soon as it can, by a call of the system each time.
#![expect(unsafe_code, reason = "SQLite asks for memory by pointers to functions in C")]

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Once;

use rusqlite::ffi::{SQLITE_CONFIG_MALLOC, SQLITE_OK, sqlite3_config, sqlite3_mem_methods};

/// In front of each piece stands how long it is. What SQLite stores wants no more than this alignment.
const HEADER: usize = size_of::<u64>();

const METHODS: sqlite3_mem_methods = sqlite3_mem_methods {
    xMalloc: Some(malloc),
    xFree: Some(free),
    xRealloc: Some(resize),
    xSize: Some(size),
    xRoundup: Some(round_up),
    xInit: Some(begin),
    xShutdown: Some(end),
    pAppData: ptr::null_mut(),
};

/// Makes SQLite use the allocator of the program, unless something in this process has used SQLite before: then it stays as it is.
pub(super) fn use_program_allocator() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let methods = METHODS;
        // SAFETY: SQLite copies the methods, and refuses to if it is in use already.
        let code = unsafe { sqlite3_config(SQLITE_CONFIG_MALLOC, &raw const methods) };
        if code != SQLITE_OK {
            tracing::debug!(code, "store: SQLite keeps the allocator that it has");
        }
    });
}

fn layout(length: usize) -> Option<Layout> {
    Layout::from_size_align(length.checked_add(HEADER)?, HEADER).ok()
}

/// Notes how long a piece is, and gives what SQLite may use of it.
///
/// # Safety
/// `piece` must be null or have room for the header.
unsafe fn labelled(piece: *mut u8, length: usize) -> *mut c_void {
    if piece.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: there is room, and pieces are aligned as the header is.
    unsafe {
        piece.cast::<u64>().write(length as u64);
        piece.add(HEADER).cast()
    }
}

/// The piece as it was allocated, and how long SQLite believes it to be.
///
/// # Safety
/// `given` must come from [`labelled`].
unsafe fn unlabelled(given: *mut c_void) -> (*mut u8, usize) {
    // SAFETY: the header stands in front of it.
    unsafe {
        let piece = given.cast::<u8>().sub(HEADER);
        (piece, piece.cast::<u64>().read() as usize)
    }
}

unsafe extern "C" fn malloc(length: c_int) -> *mut c_void {
    let Ok(length) = usize::try_from(length) else { return ptr::null_mut() };
    let Some(layout) = layout(length) else { return ptr::null_mut() };
    // SAFETY: with its header a piece is never empty.
    unsafe { labelled(alloc(layout), length) }
}

unsafe extern "C" fn free(given: *mut c_void) {
    // SAFETY: SQLite frees once what it got here.
    unsafe {
        let (piece, length) = unlabelled(given);
        if let Some(layout) = layout(length) {
            dealloc(piece, layout);
        }
    }
}

unsafe extern "C" fn resize(given: *mut c_void, wanted: c_int) -> *mut c_void {
    let Ok(wanted) = usize::try_from(wanted) else { return ptr::null_mut() };
    // SAFETY: SQLite changes what it got here, and uses only what this gives, unless that is null.
    unsafe {
        let (piece, length) = unlabelled(given);
        match (layout(length), layout(wanted)) {
            (Some(had), Some(wants)) => labelled(realloc(piece, had, wants.size()), wanted),
            _ => ptr::null_mut(),
        }
    }
}

unsafe extern "C" fn size(given: *mut c_void) -> c_int {
    // SAFETY: SQLite asks of what it got here.
    let (_, length) = unsafe { unlabelled(given) };
    c_int::try_from(length).unwrap_or(c_int::MAX)
}

unsafe extern "C" fn round_up(length: c_int) -> c_int {
    length.saturating_add(7) & !7
}

unsafe extern "C" fn begin(_: *mut c_void) -> c_int {
    SQLITE_OK
}

unsafe extern "C" fn end(_: *mut c_void) {}
