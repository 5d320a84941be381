//! What a module is and what it wants, read off it before anything of it is compiled.

use provost_core::text::first_chars;
use wasmparser::{
    ComponentExternalKind, ComponentTypeRef, Encoding, ExternalKind, Parser, Payload, TypeRef,
};

use crate::host::{self, Grants};
use crate::wasi::component;
use crate::wasi::preview1;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Found {
    pub(crate) is_component: bool,
    /// Names of functions that it exports; of a component, also of interfaces.
    pub(crate) exports: Vec<String>,
}

/// Imports that are looked at; a module with more wants something else than a tool does.
const IMPORTS_MAX: usize = 2_000;

/// Looks at a module. An `Err` says in words why it may not run.
pub(crate) fn inspect(bytes: &[u8], grants: Grants) -> Result<Found, String> {
    if !bytes.starts_with(b"\0asm") {
        return Err("it is no WASM: it does not begin with `\\0asm`".to_owned());
    }
    let broken = |error: wasmparser::BinaryReaderError| format!("it is broken: {error}");
    let mut found = Found::default();
    // Whatever lies deeper in a component is the component's own business.
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(broken)? {
            Payload::Version { encoding, .. } => {
                if depth == 0 {
                    found.is_component = encoding == Encoding::Component;
                }
                depth += 1;
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ImportSection(imports) if depth == 1 => {
                for (number, import) in imports.into_imports().enumerate() {
                    let import = import.map_err(broken)?;
                    within(number)?;
                    admit(import.module, import.name, import.ty, grants)?;
                }
            }
            Payload::ExportSection(exports) if depth == 1 => {
                for export in exports {
                    let export = export.map_err(broken)?;
                    if export.kind == ExternalKind::Func {
                        found.exports.push(export.name.to_owned());
                    }
                }
            }
            Payload::ComponentImportSection(imports) if depth == 1 => {
                for (number, import) in imports.into_iter().enumerate() {
                    let import = import.map_err(broken)?;
                    within(number)?;
                    let is_type = matches!(import.ty, ComponentTypeRef::Type(_));
                    let name = import.name.name;
                    if !is_type && !component::knows(grants, name) {
                        return Err(forbidden(name, grants));
                    }
                }
            }
            Payload::ComponentExportSection(exports) if depth == 1 => {
                for export in exports {
                    let export = export.map_err(broken)?;
                    if matches!(
                        export.kind,
                        ComponentExternalKind::Func | ComponentExternalKind::Instance
                    ) {
                        found.exports.push(export.name.name.to_owned());
                    }
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

fn within(number: usize) -> Result<(), String> {
    match number >= IMPORTS_MAX {
        true => Err(format!("it imports more than {IMPORTS_MAX} things")),
        false => Ok(()),
    }
}

fn admit(module: &str, name: &str, kind: TypeRef, grants: Grants) -> Result<(), String> {
    let full = format!("{module}.{name}");
    if !matches!(kind, TypeRef::Func(_)) {
        return Err(format!(
            "it imports `{full}`, which is no function: it must bring its own memory and tables"
        ));
    }
    let is_known = match module {
        preview1::NAME => grants.wasi && preview1::knows(name),
        host::NAME => host::knows(grants, name),
        _ => false,
    };
    if is_known { Ok(()) } else { Err(forbidden(&full, grants)) }
}

/// What is said about an import that a module may not have.
fn forbidden(name: &str, grants: Grants) -> String {
    let shown = first_chars(name, 120);
    let hint = match name {
        name if name.starts_with("wasi") && !grants.wasi => "`enable_wasi` is off",
        name if name.starts_with("provost") && name.contains("log") => "declare `log: true`",
        name if name.starts_with("provost") && name.contains("kv") => "declare `kv: true`",
        name if name.starts_with("provost") && name.contains("http") => "declare its `hosts`",
        _ => "no tool gets this",
    };
    format!("it imports `{shown}`, which it may not: {hint}")
}
