//! `provost tool test MODULE.wasm`: tests a module that no manifest needs to declare.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_core::ErrorKind;
use provost_host::HAS_WASM;
use provost_host::tool::{ToolConfig, ToolDeps, ToolRegistryConfig};
use provost_resource::ResourceSet;
use provost_tool::{DeclaredTool, Tool as _};
use serde_json::json;

use super::check::{CheckArgs, CheckResult, Fixture, fixtures};
use super::{BUILD_WITH_WASM, ToolCommand};
use crate::error::CliError;

/// Name of the manifest in the directory of a module.
const MANIFEST: &str = "tool.yaml";
/// Maximum number of fixture files in a directory.
const FILES_MAX: usize = 1_000;

/// Returns the path of the module if the arguments contain one instead of tool names.
pub(super) fn module_path(args: &CheckArgs) -> Option<&Path> {
    match args.names.as_slice() {
        [name] => {
            Some(Path::new(name)).filter(|path| path.extension().is_some_and(|end| end == "wasm"))
        }
        _ => None,
    }
}

impl ToolCommand<'_> {
    /// Checks a module and runs the calls of its fixtures. The capabilities come from the `tool.yaml` in the same
    /// directory. Without that file, the module has only WASI and its own log.
    pub(super) async fn test_module(&self, path: &Path, args: &CheckArgs) -> Result<u8, CliError> {
        if !HAS_WASM {
            let message = "this program was built without WASM support";
            return Err(CliError::new(ErrorKind::Unavailable, message).hint(BUILD_WITH_WASM));
        }
        let path = path.canonicalize();
        let path =
            path.map_err(|error| CliError::io(format!("the module {}", args.names[0]), &error))?;
        let declared = Arc::new(declared(&path, self.namespace())?);
        let files = path.parent().unwrap_or(&path);
        let deps =
            ToolDeps { dir: &self.dir, store: self.runtime.store(), redactor: &self.redactor };
        let tools = ToolConfig {
            manifests: Some(files.to_owned()),
            ..self.options.tool_args().config(None)?
        };
        let registry = ToolRegistryConfig::new(&tools, &deps, None, None).build(declared).await?;
        let tools = registry.tools(self.namespace());
        let mut items = Vec::new();
        for tool in &tools {
            self.check_module(tool, &mut items);
        }
        if let (Some(path), [tool]) = (&args.fixtures, tools.as_slice()) {
            let tool = Arc::clone(tool) as Arc<dyn provost_tool::Tool>;
            for (name, fixture) in all_fixtures(path)? {
                let mut result = self.run_fixture_on(&tool, &fixture).await?;
                result.check = name;
                items.push(result);
            }
        }
        registry.close().await;
        self.print_results(items)
    }

    /// Checks the module of a tool, and adds the result.
    fn check_module(&self, tool: &DeclaredTool, items: &mut Vec<CheckResult>) {
        let (ok, found) = match tool.verify() {
            Ok(()) => (
                true,
                tool.resource().wasm.as_ref().map(|spec| spec.module.clone()).unwrap_or_default(),
            ),
            Err(fault) => (false, fault.message),
        };
        items.push(CheckResult {
            tool: tool.spec().name().to_owned(),
            check: "module".to_owned(),
            ok,
            found,
        });
    }
}

/// Returns the tool of a module: from the manifest in its directory, or with default settings.
fn declared(path: &Path, namespace: &str) -> Result<ResourceSet, CliError> {
    let invalid = |error: provost_resource::ManifestError| CliError::invalid(error.to_string());
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let manifest = path.with_file_name(MANIFEST);
    if manifest.is_file() {
        let declared = ResourceSet::read(&manifest).map_err(invalid)?;
        let has_module = |spec: &provost_core::resource::WasmSpec| spec.module == file;
        if declared.tools(namespace).any(|tool| tool.wasm.as_ref().is_some_and(has_module)) {
            return Ok(declared);
        }
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let text = json!({
        "kind": "Tool",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "type": "wasm", "wasm": { "module": file, "log": true } },
    });
    ResourceSet::parse(&text.to_string()).map_err(invalid)
}

/// Reads the fixtures of a file or of every file in a directory. Each fixture has a name for the report.
fn all_fixtures(path: &Path) -> Result<Vec<(String, Fixture)>, CliError> {
    let failed =
        |error: std::io::Error| CliError::io(format!("the fixtures {}", path.display()), &error);
    let mut files: Vec<PathBuf> = match path.is_dir() {
        false => vec![path.to_owned()],
        true => {
            let entries =
                std::fs::read_dir(path).map_err(failed)?.flatten().map(|entry| entry.path());
            let is_fixture = |path: &PathBuf| {
                path.extension()
                    .is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known))
            };
            entries.filter(is_fixture).take(FILES_MAX).collect()
        }
    };
    files.sort();
    if files.is_empty() {
        return Err(CliError::invalid(format!("{} contains no .yaml file", path.display())));
    }
    let mut found = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let numbered = fixtures(&file)?.into_iter().enumerate();
        found.extend(numbered.map(|(index, fixture)| (format!("{name} {}", index + 1), fixture)));
    }
    Ok(found)
}
