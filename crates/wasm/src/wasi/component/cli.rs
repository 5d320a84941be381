//! `wasi:cli`, `wasi:clocks`, `wasi:random`, and an empty file system.

use std::time::{Duration, Instant};

use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, LinkerInstance, Lower, Resource};

use super::io::{create_pollable, input, output};
use super::resource::{Descriptor, STDERR, STDOUT, TerminalInput, TerminalOutput};
use crate::call::store_data::{HaltReason, StoreData};
use crate::limits::RANDOM_BYTES_MAX;
use crate::wasi::preview1::{monotonic_nanos, wall_nanos};

type Linked = wasmtime::Result<()>;
type Context<'a> = StoreContextMut<'a, StoreData>;

/// A time of the wall clock.
#[derive(ComponentType, Lift, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

pub(super) fn environment(instance: &mut LinkerInstance<'_, StoreData>) -> Linked {
    instance.func_wrap("get-environment", |context: Context<'_>, (): ()| {
        let env = context.data().wasi_inputs.env.clone();
        Ok((env.into_iter().collect::<Vec<(String, String)>>(),))
    })?;
    instance.func_wrap("get-arguments", |context: Context<'_>, (): ()| {
        Ok((context.data().wasi_inputs.args.clone(),))
    })?;
    instance.func_wrap("initial-cwd", |_: Context<'_>, (): ()| Ok((None::<String>,)))
}

pub(super) fn exit(instance: &mut LinkerInstance<'_, StoreData>) -> Linked {
    instance.func_wrap("exit", |_: Context<'_>, (status,): (Result<(), ()>,)| -> Linked {
        Err(HaltReason::Exit(i32::from(status.is_err())).into())
    })?;
    instance.func_wrap("exit-with-code", |_: Context<'_>, (code,): (u8,)| -> Linked {
        Err(HaltReason::Exit(i32::from(code)).into())
    })
}

pub(super) fn stdin(instance: &mut LinkerInstance<'_, StoreData>) -> Linked {
    instance.func_wrap("get-stdin", |_: Context<'_>, (): ()| Ok((input(),)))
}

pub(super) fn stdout(instance: &mut LinkerInstance<'_, StoreData>) -> Linked {
    instance.func_wrap("get-stdout", |_: Context<'_>, (): ()| Ok((output(STDOUT),)))
}

pub(super) fn stderr(instance: &mut LinkerInstance<'_, StoreData>) -> Linked {
    instance.func_wrap("get-stderr", |_: Context<'_>, (): ()| Ok((output(STDERR),)))
}

pub(super) fn terminal_stdin(instance: &mut LinkerInstance<'_, StoreData>) -> Linked {
    instance.func_wrap("get-terminal-stdin", |_: Context<'_>, (): ()| {
        Ok((None::<Resource<TerminalInput>>,))
    })
}

pub(super) fn terminal_stdout(instance: &mut LinkerInstance<'_, StoreData>) -> Linked {
    instance.func_wrap("get-terminal-stdout", |_: Context<'_>, (): ()| {
        Ok((None::<Resource<TerminalOutput>>,))
    })
}

pub(super) fn terminal_stderr(instance: &mut LinkerInstance<'_, StoreData>) -> Linked {
    instance.func_wrap("get-terminal-stderr", |_: Context<'_>, (): ()| {
        Ok((None::<Resource<TerminalOutput>>,))
    })
}

pub(super) fn monotonic_clock(instance: &mut LinkerInstance<'_, StoreData>) -> Linked {
    const RESOLUTION_NANOS: u64 = 1_000;
    instance
        .func_wrap("now", |context: Context<'_>, (): ()| Ok((monotonic_nanos(context.data()),)))?;
    instance.func_wrap("resolution", |_: Context<'_>, (): ()| Ok((RESOLUTION_NANOS,)))?;
    instance.func_wrap("subscribe-instant", |context: Context<'_>, (when,): (u64,)| {
        let deadline = context.data().started.checked_add(Duration::from_nanos(when));
        create_pollable(context, deadline)
    })?;
    instance.func_wrap("subscribe-duration", |context: Context<'_>, (time,): (u64,)| {
        let deadline = Instant::now().checked_add(Duration::from_nanos(time));
        create_pollable(context, deadline)
    })
}

pub(super) fn wall_clock(instance: &mut LinkerInstance<'_, StoreData>) -> Linked {
    const SECOND_NANOS: u64 = 1_000_000_000;
    instance.func_wrap("now", |context: Context<'_>, (): ()| {
        let nanos = wall_nanos(context.data());
        let nanoseconds = u32::try_from(nanos % SECOND_NANOS).unwrap_or_default();
        Ok((Datetime { seconds: nanos / SECOND_NANOS, nanoseconds },))
    })?;
    instance.func_wrap("resolution", |_: Context<'_>, (): ()| {
        Ok((Datetime { seconds: 0, nanoseconds: 1_000_000 },))
    })
}

pub(super) fn preopens(instance: &mut LinkerInstance<'_, StoreData>) -> Linked {
    instance.func_wrap("get-directories", |_: Context<'_>, (): ()| {
        Ok((Vec::<(Resource<Descriptor>, String)>::new(),))
    })
}

/// The interface has only types: no component can obtain a handle for its functions.
pub(super) fn types_only(_instance: &mut LinkerInstance<'_, StoreData>) -> Linked {
    Ok(())
}

pub(super) fn random(instance: &mut LinkerInstance<'_, StoreData>) -> Linked {
    instance.func_wrap("get-random-bytes", |context: Context<'_>, (size,): (u64,)| {
        if size > u64::from(RANDOM_BYTES_MAX) {
            return Err(HaltReason::Misuse("it requests too many random bytes at once").into());
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&context.data().env.random().to_le_bytes()[..chunk.len()]);
        }
        Ok((bytes,))
    })?;
    instance.func_wrap("get-random-u64", |context: Context<'_>, (): ()| {
        Ok((context.data().env.random(),))
    })
}

pub(super) fn seed(instance: &mut LinkerInstance<'_, StoreData>) -> Linked {
    instance.func_wrap("insecure-seed", |context: Context<'_>, (): ()| {
        let env = &context.data().env;
        Ok(((env.random(), env.random()),))
    })
}
