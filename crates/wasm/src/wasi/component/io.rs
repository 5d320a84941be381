//! `wasi:io`: streams in memory, which are always ready, and waiting.

use std::time::{Duration, Instant};

use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, LinkerInstance, Lower, Resource};

use super::resource::{ANSWER, INPUT, InputStream, IoError, OutputStream, Pollable};
use crate::call::store_data::{Guest, Halt, Stream};
use crate::limits::OUTPUT_BYTES_MAX;
use crate::wasi::preview1::poll::rest;

type Linked = wasmtime::Result<()>;
type Context<'a> = StoreContextMut<'a, Guest>;

/// Why a stream gives or takes nothing.
#[derive(ComponentType, Lift, Lower)]
#[component(variant)]
enum StreamError {
    #[component(name = "last-operation-failed")]
    LastOperationFailed(Resource<IoError>),
    #[component(name = "closed")]
    Closed,
}

/// Bytes that may be written at once.
const WRITE_BYTES: u64 = 64 << 10;
/// Things that are waited for at once.
const WAITS_MAX: usize = 64;

pub(super) fn error(instance: &mut LinkerInstance<'_, Guest>) -> Linked {
    instance
        .func_wrap("[method]error.to-debug-string", |_: Context<'_>, (_,): (Resource<IoError>,)| {
            Ok(("a stream went wrong".to_owned(),))
        })
}

pub(super) fn poll(instance: &mut LinkerInstance<'_, Guest>) -> Linked {
    instance.func_wrap(
        "[method]pollable.ready",
        |context: Context<'_>, (one,): (Resource<Pollable>,)| {
            Ok((left(&context, one.rep()).is_zero(),))
        },
    )?;
    instance.func_wrap_async(
        "[method]pollable.block",
        |context: Context<'_>, (one,): (Resource<Pollable>,)| {
            Box::new(async move { rest(context.data().deadline, left(&context, one.rep())).await })
        },
    )?;
    instance.func_wrap_async("poll", |context: Context<'_>, (all,): (Vec<Resource<Pollable>>,)| {
        Box::new(async move {
            if all.is_empty() || all.len() > WAITS_MAX {
                return Err(Halt::Misuse("it waits for nothing, or for too much").into());
            }
            let soonest = all.iter().map(|one| left(&context, one.rep())).min();
            rest(context.data().deadline, soonest.unwrap_or_default()).await?;
            let is_due = |one: &Resource<Pollable>| left(&context, one.rep()).is_zero();
            let due = (0u32..).zip(&all).filter(|(_, one)| is_due(one));
            Ok((due.map(|(at, _)| at).collect::<Vec<u32>>(),))
        })
    })
}

/// How long something still takes.
fn left(context: &Context<'_>, number: u32) -> Duration {
    let moment = context.data().resources.moment(number);
    moment.map_or(Duration::ZERO, |moment| moment.saturating_duration_since(Instant::now()))
}

/// Something to wait for.
pub(super) fn waiting(
    mut context: Context<'_>,
    until: Option<Instant>,
) -> wasmtime::Result<(Resource<Pollable>,)> {
    let number = context.data_mut().resources.wait(until)?;
    Ok((Resource::new_own(number),))
}

pub(super) fn streams(instance: &mut LinkerInstance<'_, Guest>) -> Linked {
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
        |context: Context<'_>, (_,): (Resource<InputStream>,)| waiting(context, None),
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
        |context: Context<'_>, (_,): (Resource<OutputStream>,)| waiting(context, None),
    )
}

/// The one input there is.
pub(super) fn input() -> Resource<InputStream> {
    Resource::new_own(INPUT)
}

/// An output by its number.
pub(super) fn output(number: u32) -> Resource<OutputStream> {
    Resource::new_own(number)
}

fn read(context: &mut Context<'_>, size: u64) -> Result<Vec<u8>, StreamError> {
    if size == 0 {
        return Ok(Vec::new());
    }
    let bytes = context.data_mut().read(usize::try_from(size).unwrap_or(usize::MAX));
    if bytes.is_empty() { Err(StreamError::Closed) } else { Ok(bytes.into()) }
}

fn write(
    mut context: Context<'_>,
    one: &Resource<OutputStream>,
    bytes: &[u8],
) -> wasmtime::Result<(Result<(), StreamError>,)> {
    let stream = if one.rep() == ANSWER { Stream::Answer } else { Stream::Words };
    context.data_mut().write(stream, bytes)?;
    Ok((Ok(()),))
}
