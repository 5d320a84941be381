//! Components: the interfaces of WASI 0.2 that a program without files and sockets needs, and the interfaces of
//! Provost.
//!
//! A component is called as a command (`wasi:cli/run`, with standard streams) or through a function from a request
//! string to a response string. File interfaces exist, because every standard library imports them, but contain no
//! directory.

mod cli;
mod declared;
mod io;
pub(crate) mod resource;

use wasmtime::Store;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, InstancePre, Linker, LinkerInstance};

use crate::call::store_data::{HaltReason, StdStream, StoreData};
use crate::host::HostGrants;
use crate::module::inspect::ModuleInfo;

/// Interface of a command.
const COMMAND: &str = "wasi:cli/run@0.2.";
/// Default functions of a component that is not a command.
const CALLS: [&str; 2] = ["call", "run"];

type Link = fn(&mut LinkerInstance<'_, StoreData>) -> wasmtime::Result<()>;

/// WASI interfaces and their implementations.
const INTERFACES: [(&str, Link); 19] = [
    ("wasi:cli/environment", cli::environment),
    ("wasi:cli/exit", cli::exit),
    ("wasi:cli/stdin", cli::stdin),
    ("wasi:cli/stdout", cli::stdout),
    ("wasi:cli/stderr", cli::stderr),
    ("wasi:cli/terminal-input", cli::types_only),
    ("wasi:cli/terminal-output", cli::types_only),
    ("wasi:cli/terminal-stdin", cli::terminal_stdin),
    ("wasi:cli/terminal-stdout", cli::terminal_stdout),
    ("wasi:cli/terminal-stderr", cli::terminal_stderr),
    ("wasi:clocks/monotonic-clock", cli::monotonic_clock),
    ("wasi:clocks/wall-clock", cli::wall_clock),
    ("wasi:filesystem/preopens", cli::preopens),
    ("wasi:filesystem/types", cli::types_only),
    ("wasi:io/error", io::error),
    ("wasi:io/poll", io::poll),
    ("wasi:io/streams", io::streams),
    ("wasi:random/random", cli::random),
    ("wasi:random/insecure-seed", cli::seed),
];

/// Returns true if a component with these grants may import the interface.
pub(crate) fn is_known_import(grants: HostGrants, name: &str) -> bool {
    let is_wasi = grants.wasi && INTERFACES.iter().any(|(known, _)| *known == base(name));
    is_wasi || declared::is_known_import(grants, base(name))
}

/// Returns the name of an interface without its version.
fn base(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

/// Creates a linker with the imports of a component. Calling an imported function without an implementation traps.
pub(crate) fn create_linker(
    component: &Component,
    grants: HostGrants,
) -> wasmtime::Result<Linker<StoreData>> {
    let engine = component.engine();
    let mut linker = Linker::new(engine);
    let component_type = component.component_type();
    for (name, item) in component_type.imports(engine) {
        let ComponentItem::ComponentInstance(interface) = item.ty else { continue };
        if !is_known_import(grants, name) {
            continue;
        }
        let mut instance = linker.instance(name)?;
        // An interface may use types of other interfaces. Both must refer to the same resource type.
        for (name, item) in interface.exports(engine) {
            if let ComponentItem::Resource(_) = item.ty {
                resource::link(&mut instance, name)?;
            }
        }
        match INTERFACES.iter().find(|(known, _)| *known == base(name)) {
            Some((_, link)) => link(&mut instance)?,
            None => declared::link(&mut instance, base(name))?,
        }
    }
    linker.define_unknown_imports_as_traps(component)?;
    Ok(linker)
}

/// Kind of entry of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A command, by the name of its interface.
    Command(String),
    /// A function from string to string.
    Call(String),
}

/// Returns the name of the entry: the requested one, or a well-known one if `name` is empty. `None` if the component
/// does not export it.
pub(crate) fn find_entry(found: &ModuleInfo, name: &str) -> Option<String> {
    let has = |name: &str| found.exports.iter().any(|export| export == name);
    if !name.is_empty() {
        return has(name).then(|| name.to_owned());
    }
    let command = found.exports.iter().find(|export| export.starts_with(COMMAND)).cloned();
    command.or_else(|| CALLS.into_iter().find(|name| has(name)).map(str::to_owned))
}

impl Entry {
    /// Returns the kind of entry with this name.
    pub(crate) fn of(name: &str) -> Self {
        match name.starts_with(COMMAND) {
            true => Self::Command(name.to_owned()),
            false => Self::Call(name.to_owned()),
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Command(name) | Self::Call(name) => name,
        }
    }

    /// Instantiates the component and calls its entry. Returns the exit code. The request is the argument of a call,
    /// and its result becomes the output.
    pub(crate) async fn instantiate_and_call(
        &self,
        store: &mut Store<StoreData>,
        pre: &InstancePre<StoreData>,
    ) -> wasmtime::Result<i32> {
        let instance = pre.instantiate_async(&mut *store).await?;
        let not_exported = || HaltReason::Misuse("it does not export the function");
        match self {
            Self::Command(name) => {
                let interface =
                    instance.get_export_index(&mut *store, None, name).ok_or_else(not_exported)?;
                let run = instance.get_export_index(&mut *store, Some(&interface), "run");
                let run = run.ok_or_else(not_exported)?;
                let run = instance.get_typed_func::<(), (Result<(), ()>,)>(&mut *store, run)?;
                let (ended,) = run.call_async(&mut *store, ()).await?;
                Ok(i32::from(ended.is_err()))
            }
            Self::Call(name) => {
                let call =
                    instance.get_typed_func::<(String,), (String,)>(&mut *store, name.as_str())?;
                let request = store.data_mut().read(usize::MAX);
                let request = String::from_utf8_lossy(&request).into_owned();
                let (answer,) = call.call_async(&mut *store, (request,)).await?;
                store.data_mut().write(StdStream::Stdout, answer.as_bytes())?;
                Ok(0)
            }
        }
    }
}
