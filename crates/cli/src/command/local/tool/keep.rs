//! `provost tool keep`: a module in the data directory, so that manifests can name it by its hash.

use std::path::{Path, PathBuf};

use provost_core::ErrorKind;
use provost_host::tool::modules_dir;
use provost_host::{HAS_WASM, ModulePlaces};
use serde_json::json;

use super::BUILD_WITH_WASM;
use crate::data;
use crate::problem::Problem;
use crate::render::show::Show;

/// What to keep.
#[derive(Debug, clap::Args)]
pub(crate) struct KeepArgs {
    /// The file of the module
    #[arg(value_name = "MODULE")]
    module: PathBuf,
}

/// ShellStorage it. One that is kept already is kept once.
pub(super) fn run(args: &KeepArgs, dir: &Path, show: Show) -> Result<u8, Problem> {
    if !HAS_WASM {
        let what = "this program was built without WASM";
        return Err(Problem::new(ErrorKind::Unavailable, what).help(BUILD_WITH_WASM));
    }
    let file = &args.module;
    let found = file.metadata();
    found.map_err(|error| Problem::io(format!("the module {}", file.display()), &error))?;
    data::make(dir)?;
    let places = ModulePlaces { files: None, kept: Some(modules_dir(dir)) };
    let kept = places.keep(file);
    let sha256 = kept.map_err(|error| Problem::invalid(error.to_string()))?;
    let module = format!("blob:{sha256}");
    let sentence = format!("{} is kept; a manifest names it as\nmodule: {module}", file.display());
    show.done(&json!({ "module": module, "sha256": sha256 }), &module, &sentence)?;
    Ok(0)
}
