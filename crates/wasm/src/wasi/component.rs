//! Components: the interfaces of WASI 0.2 that a program without files and sockets needs, and ours.
//!
//! A component is called as a command (`wasi:cli/run`, over its standard streams) or by a function that takes the request and
//! gives the response as texts. Interfaces for files are there, because every standard library imports them; there is no
//! directory in them.

mod cli;
mod declared;
mod io;
pub(crate) mod resource;

use wasmtime::Store;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, InstancePre, Linker, LinkerInstance};

use crate::call::store_data::{Guest, Halt, Stream};
use crate::host::Grants;
use crate::module::inspect::Found;

/// The interface of a program.
const COMMAND: &str = "wasi:cli/run@0.2.";
/// Functions that are called where a manifest names none and there is no program.
const CALLS: [&str; 2] = ["call", "run"];

type Link = fn(&mut LinkerInstance<'_, Guest>) -> wasmtime::Result<()>;

/// Interfaces of WASI, and what is behind them.
const INTERFACES: [(&str, Link); 19] = [
    ("wasi:cli/environment", cli::environment),
    ("wasi:cli/exit", cli::exit),
    ("wasi:cli/stdin", cli::stdin),
    ("wasi:cli/stdout", cli::stdout),
    ("wasi:cli/stderr", cli::stderr),
    ("wasi:cli/terminal-input", cli::types_alone),
    ("wasi:cli/terminal-output", cli::types_alone),
    ("wasi:cli/terminal-stdin", cli::terminal_stdin),
    ("wasi:cli/terminal-stdout", cli::terminal_stdout),
    ("wasi:cli/terminal-stderr", cli::terminal_stderr),
    ("wasi:clocks/monotonic-clock", cli::monotonic_clock),
    ("wasi:clocks/wall-clock", cli::wall_clock),
    ("wasi:filesystem/preopens", cli::preopens),
    ("wasi:filesystem/types", cli::types_alone),
    ("wasi:io/error", io::error),
    ("wasi:io/poll", io::poll),
    ("wasi:io/streams", io::streams),
    ("wasi:random/random", cli::random),
    ("wasi:random/insecure-seed", cli::seed),
];

/// True if a component with these grants may import an interface.
pub(crate) fn knows(grants: Grants, name: &str) -> bool {
    let is_wasi = grants.wasi && INTERFACES.iter().any(|(known, _)| *known == base(name));
    is_wasi || declared::knows(grants, base(name))
}

/// The name of an interface without its version.
fn base(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

/// Everything that a component imports. What it imports of an interface and has nothing behind it stops whoever calls it.
pub(crate) fn linker(component: &Component, grants: Grants) -> wasmtime::Result<Linker<Guest>> {
    let engine = component.engine();
    let mut linker = Linker::new(engine);
    let shape = component.component_type();
    for (name, item) in shape.imports(engine) {
        let ComponentItem::ComponentInstance(interface) = item.ty else { continue };
        if !knows(grants, name) {
            continue;
        }
        let mut instance = linker.instance(name)?;
        // An interface names the types of others that it uses, and both must mean the same.
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

/// What is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A program, by the name of its interface.
    Command(String),
    /// A function from text to text.
    Call(String),
}

/// The name of what is called, if it is there.
pub(crate) fn entry(found: &Found, named: &str) -> Option<String> {
    let has = |name: &str| found.exports.iter().any(|export| export == name);
    if !named.is_empty() {
        return has(named).then(|| named.to_owned());
    }
    let command = found.exports.iter().find(|export| export.starts_with(COMMAND)).cloned();
    command.or_else(|| CALLS.into_iter().find(|name| has(name)).map(str::to_owned))
}

impl Entry {
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

    /// Goes in. The number is the code of its end.
    pub(crate) async fn enter(
        &self,
        store: &mut Store<Guest>,
        pre: &InstancePre<Guest>,
    ) -> wasmtime::Result<i32> {
        let instance = pre.instantiate_async(&mut *store).await?;
        let missing = || Halt::Misuse("it exports no such function");
        match self {
            Self::Command(name) => {
                let interface =
                    instance.get_export_index(&mut *store, None, name).ok_or_else(missing)?;
                let run = instance.get_export_index(&mut *store, Some(&interface), "run");
                let run = run.ok_or_else(missing)?;
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
                store.data_mut().write(Stream::Answer, answer.as_bytes())?;
                Ok(0)
            }
        }
    }
}
