//! WASI preview 1 for core modules: three streams, clocks, random bytes, arguments and variables. There are no files,
//! directories or sockets, so a module cannot reach anything outside.
//!
//! File functions exist, because every C library imports them, but only the standard streams are valid descriptors.

pub(crate) mod memory;
pub(crate) mod poll;

use std::time::Instant;

use wasmtime::{Caller, ExternType, FuncType, Linker, Module, Val};

use crate::call::store_data::{HaltReason, StdStream, StoreData};
use crate::limits;
use memory::Memory;

/// Name of the import module.
pub(crate) const NAME: &str = "wasi_snapshot_preview1";

/// WASI error codes.
pub(crate) const SUCCESS: i32 = 0;
const BAD_DESCRIPTOR: i32 = 8;
const INVALID: i32 = 28;
const NOT_SUPPORTED: i32 = 58;
const NOT_SEEKABLE: i32 = 70;

/// Implemented functions.
const IMPLEMENTED: [&str; 20] = [
    "args_get",
    "args_sizes_get",
    "clock_res_get",
    "clock_time_get",
    "environ_get",
    "environ_sizes_get",
    "fd_close",
    "fd_fdstat_get",
    "fd_fdstat_set_flags",
    "fd_filestat_get",
    "fd_prestat_dir_name",
    "fd_prestat_get",
    "fd_read",
    "fd_seek",
    "fd_tell",
    "fd_write",
    "poll_oneoff",
    "proc_exit",
    "random_get",
    "sched_yield",
];

/// Stubs: there are no files, and no descriptors except the standard streams.
const STUBBED: [&str; 21] = [
    "fd_advise",
    "fd_allocate",
    "fd_datasync",
    "fd_fdstat_set_rights",
    "fd_filestat_set_size",
    "fd_filestat_set_times",
    "fd_pread",
    "fd_pwrite",
    "fd_readdir",
    "fd_renumber",
    "fd_sync",
    "path_create_directory",
    "path_filestat_get",
    "path_filestat_set_times",
    "path_link",
    "path_open",
    "path_readlink",
    "path_remove_directory",
    "path_rename",
    "path_symlink",
    "path_unlink_file",
];

/// Returns true if a module may import the function. Sockets and signals are not available.
pub(crate) fn is_known_import(name: &str) -> bool {
    IMPLEMENTED.contains(&name) || STUBBED.contains(&name)
}

type Code = wasmtime::Result<i32>;

/// Adds the imports of a module to the linker.
pub(crate) fn link(linker: &mut Linker<StoreData>, module: &Module) -> wasmtime::Result<()> {
    link_streams(linker)?;
    link_inputs(linker)?;
    link_time(linker)?;
    for import in module.imports().filter(|import| import.module() == NAME) {
        if let (true, ExternType::Func(signature)) = (STUBBED.contains(&import.name()), import.ty())
        {
            link_stub(linker, import.name(), signature)?;
        }
    }
    Ok(())
}

/// Adds a function that returns `BAD_DESCRIPTOR`, with the signature that the module imports. Returns an error for a
/// signature that cannot return a code.
fn link_stub(
    linker: &mut Linker<StoreData>,
    name: &str,
    signature: FuncType,
) -> wasmtime::Result<()> {
    let returns_code =
        signature.results().len() == 1 && signature.results().all(|kind| kind.is_i32());
    if !returns_code {
        wasmtime::bail!("`{NAME}.{name}` is imported with an invalid signature");
    }
    linker.func_new(NAME, name, signature, |_caller, _params, results| {
        if let Some(result) = results.first_mut() {
            *result = Val::I32(BAD_DESCRIPTOR);
        }
        Ok(())
    })?;
    Ok(())
}

/// Adds the functions for the standard streams.
fn link_streams(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    linker.func_wrap(NAME, "fd_read", fd_read)?;
    linker.func_wrap(NAME, "fd_write", fd_write)?;
    linker.func_wrap(NAME, "fd_fdstat_get", fd_fdstat_get)?;
    linker.func_wrap(
        NAME,
        "fd_filestat_get",
        |mut caller: Caller<'_, StoreData>, fd: i32, at: i32| {
            const SIZE: usize = 64;
            if !is_stream(fd) {
                return Ok(BAD_DESCRIPTOR);
            }
            let (mut memory, _) = Memory::of(&mut caller)?;
            memory.write(at, &[0; SIZE]).map(|()| SUCCESS)
        },
    )?;
    linker.func_wrap(
        NAME,
        "fd_close",
        |fd: i32| if is_stream(fd) { SUCCESS } else { BAD_DESCRIPTOR },
    )?;
    linker.func_wrap(NAME, "fd_fdstat_set_flags", |fd: i32, _flags: i32| {
        if is_stream(fd) { SUCCESS } else { BAD_DESCRIPTOR }
    })?;
    linker.func_wrap(
        NAME,
        "fd_seek",
        |fd: i32, _offset: i64, _whence: i32, _at: i32| {
            if is_stream(fd) { NOT_SEEKABLE } else { BAD_DESCRIPTOR }
        },
    )?;
    linker.func_wrap(
        NAME,
        "fd_tell",
        |fd: i32, _at: i32| {
            if is_stream(fd) { NOT_SEEKABLE } else { BAD_DESCRIPTOR }
        },
    )?;
    linker.func_wrap(NAME, "fd_prestat_get", |_fd: i32, _at: i32| BAD_DESCRIPTOR)?;
    linker
        .func_wrap(NAME, "fd_prestat_dir_name", |_fd: i32, _at: i32, _size: i32| BAD_DESCRIPTOR)?;
    Ok(())
}

/// Adds the functions for arguments and environment variables.
fn link_inputs(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    linker.func_wrap(
        NAME,
        "args_sizes_get",
        |mut caller: Caller<'_, StoreData>, count: i32, size: i32| {
            let texts = arguments(caller.data());
            write_sizes(&mut caller, &texts, count, size)
        },
    )?;
    linker.func_wrap(
        NAME,
        "args_get",
        |mut caller: Caller<'_, StoreData>, list: i32, text: i32| {
            let texts = arguments(caller.data());
            write_list(&mut caller, &texts, list, text)
        },
    )?;
    linker.func_wrap(
        NAME,
        "environ_sizes_get",
        |mut caller: Caller<'_, StoreData>, count: i32, size: i32| {
            let texts = variables(caller.data());
            write_sizes(&mut caller, &texts, count, size)
        },
    )?;
    linker.func_wrap(
        NAME,
        "environ_get",
        |mut caller: Caller<'_, StoreData>, list: i32, text: i32| {
            let texts = variables(caller.data());
            write_list(&mut caller, &texts, list, text)
        },
    )?;
    linker.func_wrap(NAME, "proc_exit", |code: i32| -> wasmtime::Result<()> {
        Err(wasmtime::Error::new(HaltReason::Exit(code)))
    })?;
    linker.func_wrap(NAME, "sched_yield", || SUCCESS)?;
    linker.func_wrap(
        NAME,
        "random_get",
        |mut caller: Caller<'_, StoreData>, at: i32, size: i32| -> Code {
            if size.cast_unsigned() > limits::RANDOM_BYTES_MAX {
                return Ok(INVALID);
            }
            let (mut memory, data) = Memory::of(&mut caller)?;
            for chunk in memory.slice(at, size)?.chunks_mut(8) {
                chunk.copy_from_slice(&data.env.random().to_le_bytes()[..chunk.len()]);
            }
            Ok(SUCCESS)
        },
    )?;
    Ok(())
}

/// Adds the functions for clocks, random numbers and exit.
fn link_time(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    linker.func_wrap(
        NAME,
        "clock_res_get",
        |mut caller: Caller<'_, StoreData>, clock: i32, at: i32| -> Code {
            let nanos: u64 = match clock {
                CLOCK_WALL => 1_000_000,
                CLOCK_MONOTONIC => 1_000,
                _ => return Ok(INVALID),
            };
            let (mut memory, _) = Memory::of(&mut caller)?;
            memory.write(at, &nanos.to_le_bytes()).map(|()| SUCCESS)
        },
    )?;
    linker.func_wrap(
        NAME,
        "clock_time_get",
        |mut caller: Caller<'_, StoreData>, clock: i32, _precision: i64, at: i32| -> Code {
            let (mut memory, data) = Memory::of(&mut caller)?;
            let nanos = match clock {
                CLOCK_WALL => wall_nanos(data),
                CLOCK_MONOTONIC => monotonic_nanos(data),
                _ => return Ok(INVALID),
            };
            memory.write(at, &nanos.to_le_bytes()).map(|()| SUCCESS)
        },
    )?;
    poll::link_poll(linker)
}

const CLOCK_WALL: i32 = 0;
const CLOCK_MONOTONIC: i32 = 1;

/// Returns the wall clock time with a resolution of one millisecond.
pub(crate) fn wall_nanos(data: &StoreData) -> u64 {
    u64::try_from(data.env.now().as_millis()).unwrap_or_default().saturating_mul(1_000_000)
}

/// Returns the time since the start of the call with a resolution of one microsecond, to prevent timing side channels.
pub(crate) fn monotonic_nanos(data: &StoreData) -> u64 {
    let micros = Instant::now().saturating_duration_since(data.started).as_micros();
    u64::try_from(micros).unwrap_or(u64::MAX / 1_000).saturating_mul(1_000)
}

/// Returns true if the descriptor is a standard stream.
fn is_stream(fd: i32) -> bool {
    (0..=2).contains(&fd)
}

fn fd_read(mut caller: Caller<'_, StoreData>, fd: i32, list: i32, count: i32, at: i32) -> Code {
    if fd != 0 {
        return Ok(if is_stream(fd) { NOT_SUPPORTED } else { BAD_DESCRIPTOR });
    }
    let (mut memory, data) = Memory::of(&mut caller)?;
    let mut read: u32 = 0;
    for (start, size) in memory.buffers(list, count)? {
        let buffer = memory.slice(start, size)?;
        let bytes = data.read(buffer.len());
        buffer[..bytes.len()].copy_from_slice(&bytes);
        read = read.saturating_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        if bytes.len() < size.cast_unsigned() as usize {
            break;
        }
    }
    memory.write(at, &read.to_le_bytes()).map(|()| SUCCESS)
}

fn fd_write(mut caller: Caller<'_, StoreData>, fd: i32, list: i32, count: i32, at: i32) -> Code {
    let stream = match fd {
        1 => StdStream::Stdout,
        2 => StdStream::Stderr,
        0 => return Ok(NOT_SUPPORTED),
        _ => return Ok(BAD_DESCRIPTOR),
    };
    let (mut memory, data) = Memory::of(&mut caller)?;
    let mut written: u32 = 0;
    for (start, size) in memory.buffers(list, count)? {
        let bytes = memory.slice(start, size)?;
        data.write(stream, bytes)?;
        written = written.saturating_add(size.cast_unsigned());
    }
    memory.write(at, &written.to_le_bytes()).map(|()| SUCCESS)
}

fn fd_fdstat_get(mut caller: Caller<'_, StoreData>, fd: i32, at: i32) -> Code {
    const SIZE: usize = 24;
    const RIGHTS: usize = 8;
    let rights: u64 = match fd {
        0 => 1 << 1,
        1 | 2 => 1 << 6,
        _ => return Ok(BAD_DESCRIPTOR),
    };
    // The file type is unknown: neither a file nor a terminal.
    let mut state = [0; SIZE];
    state[RIGHTS..RIGHTS + 8].copy_from_slice(&rights.to_le_bytes());
    let (mut memory, _) = Memory::of(&mut caller)?;
    memory.write(at, &state).map(|()| SUCCESS)
}

/// Returns the arguments of the module.
fn arguments(data: &StoreData) -> Vec<String> {
    data.wasi_inputs.args.clone()
}

/// Returns the environment variables in the form `name=value`.
fn variables(data: &StoreData) -> Vec<String> {
    data.wasi_inputs.env.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// Writes the number of texts and their total size with terminating zeros.
fn write_sizes(
    caller: &mut Caller<'_, StoreData>,
    texts: &[String],
    count: i32,
    size: i32,
) -> Code {
    let bytes: usize = texts.iter().map(|text| text.len() + 1).sum();
    let (mut memory, _) = Memory::of(caller)?;
    memory.write(count, &u32::try_from(texts.len()).unwrap_or(u32::MAX).to_le_bytes())?;
    memory.write(size, &u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes())?;
    Ok(SUCCESS)
}

/// Writes zero-terminated strings, and a list of their addresses.
fn write_list(caller: &mut Caller<'_, StoreData>, texts: &[String], list: i32, text: i32) -> Code {
    let (mut memory, _) = Memory::of(caller)?;
    let (mut list, mut at) = (list.cast_unsigned(), text.cast_unsigned());
    for text in texts {
        memory.write(list.cast_signed(), &at.to_le_bytes())?;
        memory.write(at.cast_signed(), text.as_bytes())?;
        at = at.wrapping_add(u32::try_from(text.len()).unwrap_or(u32::MAX));
        memory.write(at.cast_signed(), &[0])?;
        (list, at) = (list.wrapping_add(4), at.wrapping_add(1));
    }
    Ok(SUCCESS)
}
