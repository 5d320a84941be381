//! `provost tool import`: copies a WASM module to the data directory, so that manifests can refer to it by its hash.

use std::path::{Path, PathBuf};

use provost_core::ErrorKind;
use provost_host::tool::modules_dir;
use provost_host::{HAS_WASM, ModuleDirs};
use serde_json::json;

use super::BUILD_WITH_WASM;
use crate::data;
use crate::error::CliError;
use crate::render::printer::Printer;

/// Arguments of `provost tool import`.
#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// File of the module
    #[arg(value_name = "MODULE")]
    module: PathBuf,
}

/// Copies the module. Does nothing if the data directory already contains it.
pub(super) fn run(args: &ImportArgs, dir: &Path, printer: Printer) -> Result<u8, CliError> {
    if !HAS_WASM {
        let message = "this program was built without WASM support";
        return Err(CliError::new(ErrorKind::Unavailable, message).hint(BUILD_WITH_WASM));
    }
    let file = &args.module;
    let metadata = file.metadata();
    metadata.map_err(|error| CliError::io(format!("the module {}", file.display()), &error))?;
    data::create(dir)?;
    let dirs = ModuleDirs { files: None, data: Some(modules_dir(dir)) };
    let imported = dirs.import(file);
    let sha256 = imported.map_err(|error| CliError::invalid(error.to_string()))?;
    let module = format!("blob:{sha256}");
    let text = format!("imported {}; a manifest refers to it as\nmodule: {module}", file.display());
    printer.print_result(&json!({ "module": module, "sha256": sha256 }), &module, &text)?;
    Ok(0)
}
