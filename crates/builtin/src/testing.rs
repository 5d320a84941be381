//! Test helpers: a workspace in a temporary directory, and calls without an agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_core::recovery::EffectKey;
use provost_core::{Env, RunId, ToolCall};
use provost_tool::{
    Deps, Guard, GuardDecision, GuardServices, NoCallbacks, State, Tool, ToolContext,
    ToolContextParts, ToolError, ToolOutput,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use provost_workspace::{Access, WorkspaceRoot};

use crate::{edit, list, read, search, write};

/// A workspace `inside`, next to a directory that no tool may access.
pub(crate) struct Stage {
    pub(crate) dir: TempDir,
    pub(crate) workspace: WorkspaceRoot,
}

/// Content of the file outside.
pub(crate) const SECRET: &str = "the secret outside";

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(Access::ReadWrite)
    }

    pub(crate) fn with(access: Access) -> Self {
        let dir = outside();
        let workspace = WorkspaceRoot::open(dir.path().join("inside"), access).unwrap();
        Self { dir, workspace }
    }

    /// Creates a stage for each way of opening paths.
    pub(crate) fn both() -> [Self; 2] {
        let dir = outside();
        let inside = dir.path().join("inside");
        let workspace = WorkspaceRoot::open_by_component(inside, Access::ReadWrite).unwrap();
        [Self::new(), Self { dir, workspace }]
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("inside").join(name)
    }

    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn link(&self, name: &str, target: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.path(name)).unwrap();
    }

    pub(crate) fn call(&self, name: &str, arguments: Value) -> Result<String, ToolError> {
        self.call_under(&Guard::default(), name, arguments)
    }

    /// Calls a tool with a guard.
    pub(crate) fn call_under(
        &self,
        guard: &Guard,
        name: &str,
        arguments: Value,
    ) -> Result<String, ToolError> {
        let workspace = &self.workspace;
        let tool: Arc<dyn Tool> = match name {
            "read" => Arc::new(read(workspace).unwrap()),
            "write" => Arc::new(write(workspace).unwrap()),
            "edit" => Arc::new(edit(workspace).unwrap()),
            "list" => Arc::new(list(workspace).unwrap()),
            _ => Arc::new(search(workspace).unwrap()),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let called = runtime.block_on(call_under(guard, &tool, arguments, &key(1)));
        called.map(|output| output.to_text())
    }

    /// Calls a tool that must fail. Returns the error text for the model.
    pub(crate) fn error_text(&self, name: &str, arguments: Value) -> String {
        match self.call(name, arguments.clone()) {
            Ok(output) => panic!("{name} {arguments} should fail: {output}"),
            Err(error) => error.to_string(),
        }
    }

    /// Panics if a file outside of the workspace has changed.
    pub(crate) fn assert_outside_untouched(&self) {
        let outside = self.dir.path().join("outside");
        let names: Vec<_> = std::fs::read_dir(&outside)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(names, ["secret.txt"]);
        assert_eq!(std::fs::read_to_string(outside.join("secret.txt")).unwrap(), SECRET);
    }
}

fn outside() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("inside")).unwrap();
    std::fs::create_dir(dir.path().join("outside")).unwrap();
    std::fs::write(dir.path().join("outside/secret.txt"), SECRET).unwrap();
    dir
}

/// Creates an effect key.
pub(crate) fn key(turn: u64) -> EffectKey {
    let run: RunId = "run_00000000000000000000000001".parse().unwrap();
    EffectKey::new(run, turn, 0)
}

/// Returns a guard that redacts these secrets.
pub(crate) fn guard_with_secrets(secrets: &[&str]) -> Guard {
    let redactor = provost_redact::Redactor::new();
    for secret in secrets {
        redactor.register(&provost_core::Secret::from(*secret)).unwrap();
    }
    let redact = Some(Arc::new(redactor) as _);
    Guard::default().with_services(GuardServices { redact, ..GuardServices::default() })
}

/// Calls a tool through the guard, with approval.
pub(crate) fn call(
    tool: &Arc<dyn Tool>,
    arguments: Value,
    key: &EffectKey,
) -> Result<ToolOutput, ToolError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(call_async(tool, arguments, key))
}

/// Calls a tool in an async test.
pub(crate) async fn call_async(
    tool: &Arc<dyn Tool>,
    arguments: Value,
    key: &EffectKey,
) -> Result<ToolOutput, ToolError> {
    call_under(&Guard::default(), tool, arguments, key).await
}

/// Calls a tool with a guard in an async test.
pub(crate) async fn call_under(
    guard: &Guard,
    tool: &Arc<dyn Tool>,
    arguments: Value,
    key: &EffectKey,
) -> Result<ToolOutput, ToolError> {
    let name = tool.spec().name().to_owned();
    let call = ToolCall::new("call_1", &name, &arguments);
    let cx = ToolContext::new(ToolContextParts {
        run_id: Env::system().id(),
        agent: "tester".into(),
        depth: 0,
        depth_max: None,
        call_id: "call_1".to_owned(),
        tool: name,
        effect_key: key.clone(),
        retries_left: 2,
        cancel: CancellationToken::new(),
        deps: Deps::default(),
        state: State::default(),
        callbacks: Arc::new(NoCallbacks),
        redact: guard.redactor().cloned(),
    });
    match guard.check(tool, &call, /*approved*/ true) {
        GuardDecision::Allow(permit) => guard.run(permit, cx).await,
        GuardDecision::Invalid(text) => Err(ToolError::Retry(text)),
        GuardDecision::Deny(_) | GuardDecision::Ask(_) => {
            Err(ToolError::Failed("not allowed".to_owned()))
        }
    }
}
