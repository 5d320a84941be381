//! Tools from outside: declared, sandboxed, in WASM.

#[cfg(unix)]
pub(crate) mod governed;
mod openapi;
#[cfg(unix)]
mod reload;
#[cfg(target_os = "linux")]
mod sandbox;
#[cfg(unix)]
mod served_tools;
mod wasm_tool;
