//! Functions of the import module `provost`, for core modules.
//!
//! A returned size may exceed the buffer of the caller. In that case nothing is written, and the module can repeat the
//! call with a larger buffer.

use wasmtime::{Caller, Linker};

use super::{HostGrants, http};
use crate::call::store_data::{HaltReason, StoreData};
use crate::host::key_value::KeyValueError;
use crate::limits;
use crate::wasi::preview1::memory::Memory;

/// Name of the import module.
pub(crate) const NAME: &str = "provost";

/// Result codes of the functions.
const NOTHING: i32 = -1;
const BAD_KEY: i32 = -2;
const TOO_LARGE: i32 = -3;
const FULL: i32 = -4;
const UNAVAILABLE: i32 = -5;

/// Returns true if a module with these grants may import the function.
pub(crate) fn is_known_import(grants: HostGrants, name: &str) -> bool {
    match name {
        "log" => grants.log,
        "kv_get" | "kv_set" | "kv_delete" => grants.kv,
        "http_send" | "http_read" => grants.http,
        _ => false,
    }
}

/// Adds the granted functions to the linker.
pub(crate) fn link(linker: &mut Linker<StoreData>, grants: HostGrants) -> wasmtime::Result<()> {
    if grants.log {
        linker.func_wrap(
            NAME,
            "log",
            |mut caller: Caller<'_, StoreData>, at: i32, size: i32| {
                let (mut memory, data) = Memory::of(&mut caller)?;
                data.host.log(memory.slice(at, size)?);
                Ok(())
            },
        )?;
    }
    if grants.kv {
        link_key_value(linker)?;
    }
    if grants.http {
        link_http(linker)?;
    }
    Ok(())
}

/// Adds the functions for values.
fn link_key_value(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        NAME,
        "kv_get",
        |mut caller: Caller<'_, StoreData>, (key, key_size, at, size): (i32, i32, i32, i32)| {
            Box::new(async move {
                let Some(key) = read_key(&mut caller, key, key_size)? else { return Ok(BAD_KEY) };
                match caller.data().host.get(&key).await {
                    Ok(None) => Ok(NOTHING),
                    Ok(Some(value)) => write_result(&mut caller, &value, at, size),
                    Err(error) => Ok(error_code(&error)),
                }
            })
        },
    )?;
    linker.func_wrap_async(
        NAME,
        "kv_set",
        |mut caller: Caller<'_, StoreData>, (key, key_size, at, size): (i32, i32, i32, i32)| {
            Box::new(async move {
                let Some(key) = read_key(&mut caller, key, key_size)? else { return Ok(BAD_KEY) };
                if size.cast_unsigned() > limits::VALUE_BYTES_MAX {
                    return Ok(TOO_LARGE);
                }
                let value = Memory::of(&mut caller)?.0.slice(at, size)?.to_vec();
                let result = caller.data_mut().host.set(&key, value).await;
                wasmtime::Result::Ok(result.map_or_else(|error| error_code(&error), |()| 0))
            })
        },
    )?;
    linker.func_wrap_async(
        NAME,
        "kv_delete",
        |mut caller: Caller<'_, StoreData>, (key, key_size): (i32, i32)| {
            Box::new(async move {
                let Some(key) = read_key(&mut caller, key, key_size)? else { return Ok(BAD_KEY) };
                let result = caller.data_mut().host.delete(&key).await;
                wasmtime::Result::Ok(result.map_or_else(|error| error_code(&error), |()| 0))
            })
        },
    )?;
    Ok(())
}

/// Adds the functions for HTTP requests.
fn link_http(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        NAME,
        "http_send",
        |mut caller: Caller<'_, StoreData>, (at, size): (i32, i32)| {
            Box::new(async move {
                if size.cast_unsigned() > limits::REQUEST_BYTES_MAX {
                    return Ok(TOO_LARGE);
                }
                let request = Memory::of(&mut caller)?.0.slice(at, size)?.to_vec();
                let answer = http::send(&mut caller.data_mut().host, &request).await?;
                let size = i32::try_from(answer.len());
                caller.data_mut().host.usage.answer = answer;
                size.map_err(|_long| HaltReason::Misuse("a response is too large").into())
            })
        },
    )?;
    linker.func_wrap(
        NAME,
        "http_read",
        |mut caller: Caller<'_, StoreData>, at: i32, size: i32| {
            let answer = std::mem::take(&mut caller.data_mut().host.usage.answer);
            let read = write_result(&mut caller, &answer, at, size);
            caller.data_mut().host.usage.answer = answer;
            read
        },
    )?;
    Ok(())
}

/// Writes bytes to the buffer of the module if they fit, and nothing otherwise. Returns their number in both cases, so
/// that the module can retry with a larger buffer.
fn write_result(
    caller: &mut Caller<'_, StoreData>,
    bytes: &[u8],
    at: i32,
    size: i32,
) -> wasmtime::Result<i32> {
    if bytes.len() <= size.cast_unsigned() as usize {
        Memory::of(caller)?.0.write(at, bytes)?;
    }
    Ok(i32::try_from(bytes.len()).unwrap_or(i32::MAX))
}

/// Reads a key from the memory of the module. `None` if it is too long or not UTF-8.
fn read_key(
    caller: &mut Caller<'_, StoreData>,
    at: i32,
    size: i32,
) -> wasmtime::Result<Option<String>> {
    if size.cast_unsigned() > limits::KEY_BYTES_MAX {
        return Ok(None);
    }
    let bytes = Memory::of(caller)?.0.slice(at, size)?.to_vec();
    Ok(String::from_utf8(bytes).ok())
}

/// Returns the number that a function returns for an error.
fn error_code(error: &KeyValueError) -> i32 {
    match error {
        KeyValueError::Key => BAD_KEY,
        KeyValueError::TooLarge => TOO_LARGE,
        KeyValueError::Full => FULL,
        KeyValueError::Unavailable(_) => UNAVAILABLE,
    }
}
