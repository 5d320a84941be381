//! `provost tool test MODULE.wasm`: a module as a tool, without declaring it first.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_core::ErrorKind;
use provost_host::HAS_WASM;
use provost_host::tool::{ToolDeps, ToolRegistryConfig};
use provost_resource::Declared;
use provost_tool::{GovernedTool, Tool as _};
use serde_json::json;

use super::check::{CheckArgs, Fixture, Tried, fixtures};
use super::{BUILD_WITH_WASM, Bench};
use crate::problem::Problem;

/// The manifest that is looked for beside a module.
const MANIFEST: &str = "tool.yaml";
/// Files of fixtures in one directory.
const FILES_MAX: usize = 1_000;

/// The module that is named instead of tools.
pub(super) fn named(args: &CheckArgs) -> Option<&Path> {
    match args.names.as_slice() {
        [name] => {
            Some(Path::new(name)).filter(|path| path.extension().is_some_and(|end| end == "wasm"))
        }
        _ => None,
    }
}

impl Bench<'_> {
    /// Tries a module: what it is and wants, and the calls of its fixtures. What it may have stands in `tool.yaml` beside it;
    /// without one it may have nothing but WASI and its own words.
    pub(super) async fn test_module(&self, path: &Path, args: &CheckArgs) -> Result<u8, Problem> {
        if !HAS_WASM {
            let what = "this program was built without WASM";
            return Err(Problem::new(ErrorKind::Unavailable, what).help(BUILD_WITH_WASM));
        }
        let path = path.canonicalize();
        let path =
            path.map_err(|error| Problem::io(format!("the module {}", args.names[0]), &error))?;
        let declared = Arc::new(declared(&path, self.namespace())?);
        let files = path.parent().unwrap_or(&path);
        let deps =
            ToolDeps { dir: &self.dir, store: self.runtime.store(), redactor: &self.redactor };
        let tools = self.setting.tool_args().config(Vec::new(), None)?;
        let registry = ToolRegistryConfig::new(files, &tools, &deps, None).await?;
        let workshop = registry.workshop(declared, None).await?;
        let tools = workshop.tools(self.namespace());
        let mut items = Vec::new();
        for tool in &tools {
            self.try_module(tool, &mut items);
        }
        if let (Some(from), [tool]) = (&args.fixtures, tools.as_slice()) {
            let tool = Arc::clone(tool) as Arc<dyn provost_tool::Tool>;
            for (name, fixture) in all(from)? {
                let mut tried = self.play_with(&tool, &fixture).await?;
                tried.check = name;
                items.push(tried);
            }
        }
        workshop.close().await;
        self.tell(items)
    }

    fn try_module(&self, tool: &GovernedTool, items: &mut Vec<Tried>) {
        let (ok, found) = match tool.verify() {
            Ok(()) => (
                true,
                tool.resource().wasm.as_ref().map(|spec| spec.module.clone()).unwrap_or_default(),
            ),
            Err(fault) => (false, fault.message),
        };
        items.push(Tried {
            tool: tool.spec().name().to_owned(),
            check: "module".to_owned(),
            ok,
            found,
        });
    }
}

/// The tool of a module: as the manifest beside it says, or with nothing declared.
fn declared(path: &Path, namespace: &str) -> Result<Declared, Problem> {
    let refused = |error: provost_resource::DeclareError| Problem::invalid(error.to_string());
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let manifest = path.with_file_name(MANIFEST);
    if manifest.is_file() {
        let declared = Declared::read(&manifest).map_err(refused)?;
        let is_of_it = |spec: &provost_core::resource::WasmSpec| spec.module == file;
        if declared.tools(namespace).any(|tool| tool.wasm.as_ref().is_some_and(is_of_it)) {
            return Ok(declared);
        }
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let text = json!({
        "kind": "Tool",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "type": "wasm", "wasm": { "module": file, "log": true } },
    });
    Declared::parse(&text.to_string()).map_err(refused)
}

/// The fixtures of a file, or of every file of a directory, each with a name to find it by.
fn all(from: &Path) -> Result<Vec<(String, Fixture)>, Problem> {
    let failed =
        |error: std::io::Error| Problem::io(format!("the fixtures {}", from.display()), &error);
    let mut files: Vec<PathBuf> = match from.is_dir() {
        false => vec![from.to_owned()],
        true => {
            let entries =
                std::fs::read_dir(from).map_err(failed)?.flatten().map(|entry| entry.path());
            let is_one = |path: &PathBuf| {
                path.extension()
                    .is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known))
            };
            entries.filter(is_one).take(FILES_MAX).collect()
        }
    };
    files.sort();
    if files.is_empty() {
        return Err(Problem::invalid(format!("{} has no .yaml file in it", from.display())));
    }
    let mut found = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let numbered = fixtures(&file)?.into_iter().enumerate();
        found.extend(numbered.map(|(at, fixture)| (format!("{name} {}", at + 1), fixture)));
    }
    Ok(found)
}
