//! The functions of the module `provost`, for core modules.
//!
//! A size that is given back may be larger than the place that was given; nothing of it is written then, and the module asks again.

use wasmtime::{Caller, Linker};

use super::{Grants, http};
use crate::call::store_data::{Guest, Halt};
use crate::host::key_value::KvError;
use crate::limits;
use crate::wasi::preview1::memory::Memory;

/// The name under which modules import them.
pub(crate) const NAME: &str = "provost";

/// What is given back if there is nothing.
const NOTHING: i32 = -1;
const BAD_KEY: i32 = -2;
const TOO_LARGE: i32 = -3;
const FULL: i32 = -4;
const UNAVAILABLE: i32 = -5;

/// True if a module with these grants may import it.
pub(crate) fn knows(grants: Grants, name: &str) -> bool {
    match name {
        "log" => grants.log,
        "kv_get" | "kv_set" | "kv_delete" => grants.kv,
        "http_send" | "http_read" => grants.http,
        _ => false,
    }
}

/// Adds what was declared.
pub(crate) fn link(linker: &mut Linker<Guest>, grants: Grants) -> wasmtime::Result<()> {
    if grants.log {
        linker.func_wrap(NAME, "log", |mut caller: Caller<'_, Guest>, at: i32, size: i32| {
            let (mut memory, guest) = Memory::of(&mut caller)?;
            guest.host.log(memory.slice(at, size)?);
            Ok(())
        })?;
    }
    if grants.kv {
        keys(linker)?;
    }
    if grants.http {
        requests(linker)?;
    }
    Ok(())
}

fn keys(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        NAME,
        "kv_get",
        |mut caller: Caller<'_, Guest>, (key, key_size, at, size): (i32, i32, i32, i32)| {
            Box::new(async move {
                let Some(key) = text(&mut caller, key, key_size)? else { return Ok(BAD_KEY) };
                match caller.data().host.get(&key).await {
                    Ok(None) => Ok(NOTHING),
                    Ok(Some(value)) => given(&mut caller, &value, at, size),
                    Err(error) => Ok(code(&error)),
                }
            })
        },
    )?;
    linker.func_wrap_async(
        NAME,
        "kv_set",
        |mut caller: Caller<'_, Guest>, (key, key_size, at, size): (i32, i32, i32, i32)| {
            Box::new(async move {
                let Some(key) = text(&mut caller, key, key_size)? else { return Ok(BAD_KEY) };
                if size.cast_unsigned() > limits::VALUE_BYTES_MAX {
                    return Ok(TOO_LARGE);
                }
                let value = Memory::of(&mut caller)?.0.slice(at, size)?.to_vec();
                let kept = caller.data_mut().host.set(&key, value).await;
                wasmtime::Result::Ok(kept.map_or_else(|error| code(&error), |()| 0))
            })
        },
    )?;
    linker.func_wrap_async(
        NAME,
        "kv_delete",
        |mut caller: Caller<'_, Guest>, (key, key_size): (i32, i32)| {
            Box::new(async move {
                let Some(key) = text(&mut caller, key, key_size)? else { return Ok(BAD_KEY) };
                let gone = caller.data_mut().host.delete(&key).await;
                wasmtime::Result::Ok(gone.map_or_else(|error| code(&error), |()| 0))
            })
        },
    )?;
    Ok(())
}

fn requests(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        NAME,
        "http_send",
        |mut caller: Caller<'_, Guest>, (at, size): (i32, i32)| {
            Box::new(async move {
                if size.cast_unsigned() > limits::REQUEST_BYTES_MAX {
                    return Ok(TOO_LARGE);
                }
                let request = Memory::of(&mut caller)?.0.slice(at, size)?.to_vec();
                let answer = http::send(&mut caller.data_mut().host, &request).await?;
                let size = i32::try_from(answer.len());
                caller.data_mut().host.used.answer = answer;
                size.map_err(|_long| Halt::Misuse("an answer does not fit").into())
            })
        },
    )?;
    linker.func_wrap(NAME, "http_read", |mut caller: Caller<'_, Guest>, at: i32, size: i32| {
        let answer = std::mem::take(&mut caller.data_mut().host.used.answer);
        let came = given(&mut caller, &answer, at, size);
        caller.data_mut().host.used.answer = answer;
        came
    })?;
    Ok(())
}

/// Puts bytes where the module wants them, if there is room; says how many there are.
fn given(
    caller: &mut Caller<'_, Guest>,
    bytes: &[u8],
    at: i32,
    size: i32,
) -> wasmtime::Result<i32> {
    if bytes.len() <= size.cast_unsigned() as usize {
        Memory::of(caller)?.0.write(at, bytes)?;
    }
    Ok(i32::try_from(bytes.len()).unwrap_or(i32::MAX))
}

fn text(caller: &mut Caller<'_, Guest>, at: i32, size: i32) -> wasmtime::Result<Option<String>> {
    if size.cast_unsigned() > limits::KEY_BYTES_MAX {
        return Ok(None);
    }
    let bytes = Memory::of(caller)?.0.slice(at, size)?.to_vec();
    Ok(String::from_utf8(bytes).ok())
}

fn code(error: &KvError) -> i32 {
    match error {
        KvError::Key => BAD_KEY,
        KvError::TooLarge => TOO_LARGE,
        KvError::Full => FULL,
        KvError::Unavailable(_) => UNAVAILABLE,
    }
}
