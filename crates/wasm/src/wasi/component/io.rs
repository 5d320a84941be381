//! `wasi:io`: in-memory streams, which are always ready, and polling.

use std::time::{Duration, Instant};

use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, LinkerInstance, Lower, Resource};

use super::resource::{InputStream, IoError, OutputStream, Pollable, STDIN, STDOUT};
use crate::call::store_data::{HaltReason, StdStream, StoreData};
use crate::limits::OUTPUT_BYTES_MAX;
use crate::wasi::preview1::poll::sleep_bounded;

type Linked = wasmtime::Result<()>;
type Context<'a> = StoreContextMut<'a, StoreData>;

/// Error of a stream operation.
#[derive(ComponentType, Lift, Lower)]
#[component(variant)]
enum StreamError {
    #[component(name = "last-operation-failed")]
    LastOperationFailed(Resource<IoError>),
    #[component(name = "closed")]
    Closed,
}

/// Number of bytes that a component may write at once.
const WRITE_BYTES: u64 = 64 << 10;
/// Maximum number of pollables of one call.
const SUBSCRIPTIONS_MAX: usize = 64;

pub(super) fn error(instance: &mut LinkerInstance<'_, StoreData>) -> Linked {
    instance
        .func_wrap("[method]error.to-debug-string", |_: Context<'_>, (_,): (Resource<IoError>,)| {
            Ok(("a stream operation failed".to_owned(),))
        })
}

pub(super) fn poll(instance: &mut LinkerInstance<'_, StoreData>) -> Linked {
    instance.func_wrap(
        "[method]pollable.ready",
        |context: Context<'_>, (one,): (Resource<Pollable>,)| {
            Ok((remaining(&context, one.rep()).is_zero(),))
        },
    )?;
    instance.func_wrap_async(
        "[method]pollable.block",
        |context: Context<'_>, (one,): (Resource<Pollable>,)| {
            Box::new(async move {
                sleep_bounded(context.data().deadline, remaining(&context, one.rep())).await
            })
        },
    )?;
    instance.func_wrap_async("poll", |context: Context<'_>, (all,): (Vec<Resource<Pollable>>,)| {
        Box::new(async move {
            if all.is_empty() || all.len() > SUBSCRIPTIONS_MAX {
                return Err(HaltReason::Misuse("it polls no or too many pollables").into());
            }
            let soonest = all.iter().map(|one| remaining(&context, one.rep())).min();
            sleep_bounded(context.data().deadline, soonest.unwrap_or_default()).await?;
            let is_due = |one: &Resource<Pollable>| remaining(&context, one.rep()).is_zero();
            let due = (0u32..).zip(&all).filter(|(_, one)| is_due(one));
            Ok((due.map(|(at, _)| at).collect::<Vec<u32>>(),))
        })
    })
}

/// Returns the time until a pollable is ready. Zero if it is ready.
fn remaining(context: &Context<'_>, number: u32) -> Duration {
    let deadline = context.data().resources.deadline(number);
    deadline.map_or(Duration::ZERO, |deadline| deadline.saturating_duration_since(Instant::now()))
}

/// Creates a pollable that is ready at a time, or at once if there is none. Returns an error if too many are open.
pub(super) fn create_pollable(
    mut context: Context<'_>,
    until: Option<Instant>,
) -> wasmtime::Result<(Resource<Pollable>,)> {
    let number = context.data_mut().resources.add_pollable(until)?;
    Ok((Resource::new_own(number),))
}

pub(super) fn streams(instance: &mut LinkerInstance<'_, StoreData>) -> Linked {
    for name in ["read", "blocking-read"] {
        let name = format!("[method]input-stream.{name}");
        instance.func_wrap(
            &name,
            |mut context: Context<'_>, (_, size): (Resource<InputStream>, u64)| {
                Ok((read(&mut context, size),))
            },
        )?;
    }
    for name in ["skip", "blocking-skip"] {
        let name = format!("[method]input-stream.{name}");
        instance.func_wrap(
            &name,
            |mut context: Context<'_>, (_, size): (Resource<InputStream>, u64)| {
                Ok((read(&mut context, size).map(|bytes| bytes.len() as u64),))
            },
        )?;
    }
    instance.func_wrap(
        "[method]input-stream.subscribe",
        |context: Context<'_>, (_,): (Resource<InputStream>,)| create_pollable(context, None),
    )?;
    instance.func_wrap(
        "[method]output-stream.check-write",
        |_: Context<'_>, (_,): (Resource<OutputStream>,)| {
            Ok((Ok::<u64, StreamError>(WRITE_BYTES),))
        },
    )?;
    for name in ["write", "blocking-write-and-flush"] {
        let name = format!("[method]output-stream.{name}");
        instance.func_wrap(
            &name,
            |context: Context<'_>, (one, bytes): (Resource<OutputStream>, Vec<u8>)| {
                write(context, &one, &bytes)
            },
        )?;
    }
    for name in ["write-zeroes", "blocking-write-zeroes-and-flush"] {
        let name = format!("[method]output-stream.{name}");
        instance.func_wrap(
            &name,
            |context: Context<'_>, (one, size): (Resource<OutputStream>, u64)| {
                let size = usize::try_from(size).unwrap_or(usize::MAX).min(OUTPUT_BYTES_MAX + 1);
                write(context, &one, &vec![0; size])
            },
        )?;
    }
    for name in ["flush", "blocking-flush"] {
        let name = format!("[method]output-stream.{name}");
        instance.func_wrap(&name, |_: Context<'_>, (_,): (Resource<OutputStream>,)| {
            Ok((Ok::<(), StreamError>(()),))
        })?;
    }
    instance.func_wrap(
        "[method]output-stream.subscribe",
        |context: Context<'_>, (_,): (Resource<OutputStream>,)| create_pollable(context, None),
    )
}

/// Returns the input stream.
pub(super) fn input() -> Resource<InputStream> {
    Resource::new_own(STDIN)
}

/// Returns an output stream by its number.
pub(super) fn output(number: u32) -> Resource<OutputStream> {
    Resource::new_own(number)
}

/// Reads from the input. Returns [`StreamError::Closed`] at its end.
fn read(context: &mut Context<'_>, size: u64) -> Result<Vec<u8>, StreamError> {
    if size == 0 {
        return Ok(Vec::new());
    }
    let bytes = context.data_mut().read(usize::try_from(size).unwrap_or(usize::MAX));
    if bytes.is_empty() { Err(StreamError::Closed) } else { Ok(bytes.into()) }
}

/// Writes to an output stream.
fn write(
    mut context: Context<'_>,
    one: &Resource<OutputStream>,
    bytes: &[u8],
) -> wasmtime::Result<(Result<(), StreamError>,)> {
    let stream = if one.rep() == STDOUT { StdStream::Stdout } else { StdStream::Stderr };
    context.data_mut().write(stream, bytes)?;
    Ok((Ok(()),))
}
