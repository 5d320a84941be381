//! The interfaces of `provost:tool` for components. `wit/tool.wit` defines them.

use wasmtime::StoreContextMut;
use wasmtime::component::LinkerInstance;

use crate::call::store_data::StoreData;
use crate::host::{HostGrants, http};
use crate::limits::REQUEST_BYTES_MAX;

type Context<'a> = StoreContextMut<'a, StoreData>;

const LOG: &str = "provost:tool/log";
const KV: &str = "provost:tool/kv";
const HTTP: &str = "provost:tool/http";

/// Returns true if a component with these grants may import the interface.
pub(super) fn is_known_import(grants: HostGrants, name: &str) -> bool {
    match name {
        LOG => grants.log,
        KV => grants.kv,
        HTTP => grants.http,
        _ => false,
    }
}

/// Adds the functions of an interface. Does nothing for an unknown interface.
pub(super) fn link(
    instance: &mut LinkerInstance<'_, StoreData>,
    name: &str,
) -> wasmtime::Result<()> {
    match name {
        LOG => instance.func_wrap("write", |mut context: Context<'_>, (text,): (String,)| {
            context.data_mut().host.log(text.as_bytes());
            Ok(())
        }),
        KV => link_key_value(instance),
        HTTP => {
            instance.func_wrap_async("send", |mut context: Context<'_>, (request,): (String,)| {
                Box::new(async move {
                    if request.len() > REQUEST_BYTES_MAX as usize {
                        return Err(crate::call::store_data::HaltReason::Misuse(
                            "a request is too large",
                        )
                        .into());
                    }
                    let answer =
                        http::send(&mut context.data_mut().host, request.as_bytes()).await?;
                    Ok((String::from_utf8_lossy(&answer).into_owned(),))
                })
            })
        }
        _ => Ok(()),
    }
}

/// Adds the functions for values.
fn link_key_value(instance: &mut LinkerInstance<'_, StoreData>) -> wasmtime::Result<()> {
    instance.func_wrap_async("get", |context: Context<'_>, (key,): (String,)| {
        Box::new(async move {
            let value = context.data().host.get(&key).await;
            Ok((value.map_err(|error| error.to_string()),))
        })
    })?;
    instance.func_wrap_async(
        "set",
        |mut context: Context<'_>, (key, value): (String, Vec<u8>)| {
            Box::new(async move {
                let result = context.data_mut().host.set(&key, value).await;
                Ok((result.map_err(|error| error.to_string()),))
            })
        },
    )?;
    instance.func_wrap_async("delete", |mut context: Context<'_>, (key,): (String,)| {
        Box::new(async move {
            let result = context.data_mut().host.delete(&key).await;
            Ok((result.map_err(|error| error.to_string()),))
        })
    })
}
