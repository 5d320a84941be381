//! WASM modules and components as tools: in this process, bounded in everything, with nothing of the machine but what a manifest
//! declares.
//!
//! [`WasmRuntime`] runs tools of type `wasm`. A module reads a request of the module contract from its standard input and writes
//! a response to its standard output ([`ModuleRequest`], [`ModuleResponse`]). It has clocks, chance, its arguments and variables;
//! it has no files, no sockets, no processes. What a manifest declares beside that (asking hosts, keeping values, saying how far it
//! is) is linked, and nothing else is: a module that imports more is refused before it runs.
//!
//! Fuel, memory, tables, stack, time and output have bounds, and all calls together have one for their memory. Modules run on
//! threads of their own and give way again and again, so one that loops holds nobody up, and dropping a call ends it.

mod call;
mod contract;
mod engine;
mod error;
mod host;
pub mod limits;
mod module;
mod private_dir;
mod runtime;
mod self_test;
mod wasi;

pub use contract::{MODULE_CONTRACT_VERSION, ModuleBounds, ModuleRequest, ModuleResponse};
pub use error::WasmError;

pub use host::key_value::{FileKeyValues, KeyValues, KvError, KvScope, MemoryKeyValues};
pub use runtime::{WasmOptions, WasmRuntime};
pub use self_test::examine;
