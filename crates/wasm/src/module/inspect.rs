//! Inspection of a module before it is compiled: its kind, imports and exports.

use provost_core::text::first_chars;
use wasmparser::{
    ComponentExternalKind, ComponentTypeRef, Encoding, ExternalKind, Parser, Payload, TypeRef,
};

use crate::host::{self, HostGrants};
use crate::wasi::component;
use crate::wasi::preview1;

/// Properties of a module: whether it is a component, and its exports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ModuleInfo {
    pub(crate) is_component: bool,
    /// Names of the exported functions, and of exported interfaces of a component.
    pub(crate) exports: Vec<String>,
}

/// Maximum number of imports.
const IMPORTS_MAX: usize = 2_000;

/// Inspects a module without compiling it. Returns an error message if the module is malformed, exceeds a limit or
/// imports a function that is not granted.
pub(crate) fn inspect(bytes: &[u8], grants: HostGrants) -> Result<ModuleInfo, String> {
    if !bytes.starts_with(b"\0asm") {
        return Err("the file is not a WASM module: it does not begin with `\\0asm`".to_owned());
    }
    let malformed =
        |error: wasmparser::BinaryReaderError| format!("the module is malformed: {error}");
    let mut info = ModuleInfo::default();
    // Nested modules of a component are linked by the component itself.
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(malformed)? {
            Payload::Version { encoding, .. } => {
                if depth == 0 {
                    info.is_component = encoding == Encoding::Component;
                }
                depth += 1;
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ImportSection(imports) if depth == 1 => {
                for (number, import) in imports.into_imports().enumerate() {
                    let import = import.map_err(malformed)?;
                    check_import_count(number)?;
                    check_import(import.module, import.name, import.ty, grants)?;
                }
            }
            Payload::ExportSection(exports) if depth == 1 => {
                for export in exports {
                    let export = export.map_err(malformed)?;
                    if export.kind == ExternalKind::Func {
                        info.exports.push(export.name.to_owned());
                    }
                }
            }
            Payload::ComponentImportSection(imports) if depth == 1 => {
                for (number, import) in imports.into_iter().enumerate() {
                    let import = import.map_err(malformed)?;
                    check_import_count(number)?;
                    let is_type = matches!(import.ty, ComponentTypeRef::Type(_));
                    let name = import.name.name;
                    if !is_type && !component::is_known_import(grants, name) {
                        return Err(import_error(name, grants));
                    }
                }
            }
            Payload::ComponentExportSection(exports) if depth == 1 => {
                for export in exports {
                    let export = export.map_err(malformed)?;
                    if matches!(
                        export.kind,
                        ComponentExternalKind::Func | ComponentExternalKind::Instance
                    ) {
                        info.exports.push(export.name.name.to_owned());
                    }
                }
            }
            _ => {}
        }
    }
    Ok(info)
}

/// Returns an error message if the import at this position exceeds the limit.
fn check_import_count(number: usize) -> Result<(), String> {
    match number >= IMPORTS_MAX {
        true => Err(format!("the module has more than {IMPORTS_MAX} imports")),
        false => Ok(()),
    }
}

/// Returns an error message if an import is not a function or is not granted.
fn check_import(module: &str, name: &str, kind: TypeRef, grants: HostGrants) -> Result<(), String> {
    let full = format!("{module}.{name}");
    if !matches!(kind, TypeRef::Func(_)) {
        return Err(format!(
            "the module imports `{full}`, which is not a function: it must define its own memory and tables"
        ));
    }
    let is_known = match module {
        preview1::NAME => grants.wasi && preview1::is_known_import(name),
        host::NAME => host::is_known_import(grants, name),
        _ => false,
    };
    if is_known { Ok(()) } else { Err(import_error(&full, grants)) }
}

/// Returns the error message for an import that is not granted.
fn import_error(name: &str, grants: HostGrants) -> String {
    let shown = first_chars(name, 120);
    let hint = match name {
        name if name.starts_with("wasi") && !grants.wasi => "`enable_wasi` is off",
        name if name.starts_with("provost") && name.contains("log") => "declare `log: true`",
        name if name.starts_with("provost") && name.contains("kv") => "declare `kv: true`",
        name if name.starts_with("provost") && name.contains("http") => "declare its `hosts`",
        _ => "no grant provides it",
    };
    format!("the module imports `{shown}`, which is not granted: {hint}")
}
