//! WASI preview 1 for core modules: three streams, clocks, chance, arguments, variables. There is no file, no directory and no
//! socket behind any of it, so there is nothing to get out to.
//!
//! Functions for files are there, because every C library is linked with them; they know of no descriptor but the streams.

pub(crate) mod memory;
pub(crate) mod poll;

use std::time::Instant;

use wasmtime::{Caller, ExternType, FuncType, Linker, Module, Val};

use crate::call::store_data::{Guest, Halt, Stream};
use crate::limits;
use memory::Memory;

/// The name under which modules import it.
pub(crate) const NAME: &str = "wasi_snapshot_preview1";

/// Codes of WASI.
pub(crate) const SUCCESS: i32 = 0;
const BAD_DESCRIPTOR: i32 = 8;
const INVALID: i32 = 28;
const NOT_SUPPORTED: i32 = 58;
const NOT_SEEKABLE: i32 = 70;

/// What is really there.
const SERVED: [&str; 20] = [
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

/// What is there and knows of nothing: there are no files, and no descriptors beside the streams.
const EMPTY: [&str; 21] = [
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

/// True if a module may import it. Sockets and signals are not among it.
pub(crate) fn knows(name: &str) -> bool {
    SERVED.contains(&name) || EMPTY.contains(&name)
}

type Code = wasmtime::Result<i32>;

/// Adds what a module imports of it.
pub(crate) fn link(linker: &mut Linker<Guest>, module: &Module) -> wasmtime::Result<()> {
    streams(linker)?;
    given(linker)?;
    time(linker)?;
    for import in module.imports().filter(|import| import.module() == NAME) {
        if let (true, ExternType::Func(shape)) = (EMPTY.contains(&import.name()), import.ty()) {
            empty(linker, import.name(), shape)?;
        }
    }
    Ok(())
}

/// A function that knows of no descriptor, in whichever shape the module wants it.
fn empty(linker: &mut Linker<Guest>, name: &str, shape: FuncType) -> wasmtime::Result<()> {
    let gives_code = shape.results().len() == 1 && shape.results().all(|kind| kind.is_i32());
    if !gives_code {
        wasmtime::bail!("`{NAME}.{name}` is imported in a shape that it does not have");
    }
    linker.func_new(NAME, name, shape, |_caller, _params, results| {
        if let Some(result) = results.first_mut() {
            *result = Val::I32(BAD_DESCRIPTOR);
        }
        Ok(())
    })?;
    Ok(())
}

fn streams(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap(NAME, "fd_read", fd_read)?;
    linker.func_wrap(NAME, "fd_write", fd_write)?;
    linker.func_wrap(NAME, "fd_fdstat_get", fd_fdstat_get)?;
    linker.func_wrap(
        NAME,
        "fd_filestat_get",
        |mut caller: Caller<'_, Guest>, fd: i32, at: i32| {
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

fn given(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap(
        NAME,
        "args_sizes_get",
        |mut caller: Caller<'_, Guest>, count: i32, size: i32| {
            let texts = arguments(caller.data());
            sizes(&mut caller, &texts, count, size)
        },
    )?;
    linker.func_wrap(NAME, "args_get", |mut caller: Caller<'_, Guest>, list: i32, text: i32| {
        let texts = arguments(caller.data());
        listed(&mut caller, &texts, list, text)
    })?;
    linker.func_wrap(
        NAME,
        "environ_sizes_get",
        |mut caller: Caller<'_, Guest>, count: i32, size: i32| {
            let texts = variables(caller.data());
            sizes(&mut caller, &texts, count, size)
        },
    )?;
    linker.func_wrap(
        NAME,
        "environ_get",
        |mut caller: Caller<'_, Guest>, list: i32, text: i32| {
            let texts = variables(caller.data());
            listed(&mut caller, &texts, list, text)
        },
    )?;
    linker.func_wrap(NAME, "proc_exit", |code: i32| -> wasmtime::Result<()> {
        Err(wasmtime::Error::new(Halt::Exit(code)))
    })?;
    linker.func_wrap(NAME, "sched_yield", || SUCCESS)?;
    linker.func_wrap(
        NAME,
        "random_get",
        |mut caller: Caller<'_, Guest>, at: i32, size: i32| -> Code {
            if size.cast_unsigned() > limits::RANDOM_BYTES_MAX {
                return Ok(INVALID);
            }
            let (mut memory, guest) = Memory::of(&mut caller)?;
            for chunk in memory.slice(at, size)?.chunks_mut(8) {
                chunk.copy_from_slice(&guest.env.random().to_le_bytes()[..chunk.len()]);
            }
            Ok(SUCCESS)
        },
    )?;
    Ok(())
}

fn time(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap(
        NAME,
        "clock_res_get",
        |mut caller: Caller<'_, Guest>, clock: i32, at: i32| -> Code {
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
        |mut caller: Caller<'_, Guest>, clock: i32, _precision: i64, at: i32| -> Code {
            let (mut memory, guest) = Memory::of(&mut caller)?;
            let nanos = match clock {
                CLOCK_WALL => wall_nanos(guest),
                CLOCK_MONOTONIC => monotonic_nanos(guest),
                _ => return Ok(INVALID),
            };
            memory.write(at, &nanos.to_le_bytes()).map(|()| SUCCESS)
        },
    )?;
    poll::link(linker)
}

const CLOCK_WALL: i32 = 0;
const CLOCK_MONOTONIC: i32 = 1;

/// The time of day, as exact as whole milliseconds.
pub(crate) fn wall_nanos(guest: &Guest) -> u64 {
    u64::try_from(guest.env.now().as_millis()).unwrap_or_default().saturating_mul(1_000_000)
}

/// The time since the call began, as exact as microseconds: what goes on elsewhere on the machine is not to be read off it.
pub(crate) fn monotonic_nanos(guest: &Guest) -> u64 {
    let micros = Instant::now().saturating_duration_since(guest.began).as_micros();
    u64::try_from(micros).unwrap_or(u64::MAX / 1_000).saturating_mul(1_000)
}

fn is_stream(fd: i32) -> bool {
    (0..=2).contains(&fd)
}

fn fd_read(mut caller: Caller<'_, Guest>, fd: i32, list: i32, count: i32, at: i32) -> Code {
    if fd != 0 {
        return Ok(if is_stream(fd) { NOT_SUPPORTED } else { BAD_DESCRIPTOR });
    }
    let (mut memory, guest) = Memory::of(&mut caller)?;
    let mut read: u32 = 0;
    for (start, size) in memory.parts(list, count)? {
        let place = memory.slice(start, size)?;
        let bytes = guest.read(place.len());
        place[..bytes.len()].copy_from_slice(&bytes);
        read = read.saturating_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        if bytes.len() < size.cast_unsigned() as usize {
            break;
        }
    }
    memory.write(at, &read.to_le_bytes()).map(|()| SUCCESS)
}

fn fd_write(mut caller: Caller<'_, Guest>, fd: i32, list: i32, count: i32, at: i32) -> Code {
    let stream = match fd {
        1 => Stream::Answer,
        2 => Stream::Words,
        0 => return Ok(NOT_SUPPORTED),
        _ => return Ok(BAD_DESCRIPTOR),
    };
    let (mut memory, guest) = Memory::of(&mut caller)?;
    let mut written: u32 = 0;
    for (start, size) in memory.parts(list, count)? {
        let bytes = memory.slice(start, size)?;
        guest.write(stream, bytes)?;
        written = written.saturating_add(size.cast_unsigned());
    }
    memory.write(at, &written.to_le_bytes()).map(|()| SUCCESS)
}

fn fd_fdstat_get(mut caller: Caller<'_, Guest>, fd: i32, at: i32) -> Code {
    const SIZE: usize = 24;
    const RIGHTS: usize = 8;
    let rights: u64 = match fd {
        0 => 1 << 1,
        1 | 2 => 1 << 6,
        _ => return Ok(BAD_DESCRIPTOR),
    };
    // Of an unknown sort: neither a file nor a terminal.
    let mut state = [0; SIZE];
    state[RIGHTS..RIGHTS + 8].copy_from_slice(&rights.to_le_bytes());
    let (mut memory, _) = Memory::of(&mut caller)?;
    memory.write(at, &state).map(|()| SUCCESS)
}

fn arguments(guest: &Guest) -> Vec<String> {
    guest.given.args.clone()
}

fn variables(guest: &Guest) -> Vec<String> {
    guest.given.env.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

fn sizes(caller: &mut Caller<'_, Guest>, texts: &[String], count: i32, size: i32) -> Code {
    let bytes: usize = texts.iter().map(|text| text.len() + 1).sum();
    let (mut memory, _) = Memory::of(caller)?;
    memory.write(count, &u32::try_from(texts.len()).unwrap_or(u32::MAX).to_le_bytes())?;
    memory.write(size, &u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes())?;
    Ok(SUCCESS)
}

/// Texts one after the other, each with a zero at its end, and a list of where each begins.
fn listed(caller: &mut Caller<'_, Guest>, texts: &[String], list: i32, text: i32) -> Code {
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
