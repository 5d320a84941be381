//! What tests share: a workspace in a directory that goes away, and calls without an agent around them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_core::recovery::EffectKey;
use provost_core::{Env, RunId, ToolCall};
use provost_tool::{
    Deps, Guard, Nobody, Oversight, State, Tool, ToolCx, ToolCxParts, ToolError, ToolOutput,
    Verdict,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use provost_workspace::{Access, Workspace};

use crate::{edit, list, read, search, write};

/// A workspace `inside`, and beside it what nobody may touch.
pub(crate) struct Stage {
    pub(crate) dir: TempDir,
    pub(crate) workspace: Workspace,
}

/// What the file outside says.
pub(crate) const SECRET: &str = "the secret outside";

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(Access::ReadWrite)
    }

    pub(crate) fn with(access: Access) -> Self {
        let dir = outside();
        let workspace = Workspace::open(dir.path().join("inside"), access).unwrap();
        Self { dir, workspace }
    }

    /// One for each way in which names become descriptors.
    pub(crate) fn both() -> [Self; 2] {
        let dir = outside();
        let inside = dir.path().join("inside");
        let workspace = Workspace::open_by_steps(inside, Access::ReadWrite).unwrap();
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

    /// The same under a guard.
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

    /// What went wrong, as the model hears it.
    pub(crate) fn refusal(&self, name: &str, arguments: Value) -> String {
        match self.call(name, arguments.clone()) {
            Ok(output) => panic!("{name} {arguments} should fail: {output}"),
            Err(error) => error.to_string(),
        }
    }

    /// Nothing outside has changed.
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

/// The key of an effect.
pub(crate) fn key(turn: u64) -> EffectKey {
    let run: RunId = "run_00000000000000000000000001".parse().unwrap();
    EffectKey::new(run, turn, 0)
}

/// A guard under which these are secrets.
pub(crate) fn hiding(secrets: &[&str]) -> Guard {
    let redactor = provost_redact::Redactor::new();
    for secret in secrets {
        redactor.learn(&provost_core::Secret::from(*secret)).unwrap();
    }
    let redact = Some(Arc::new(redactor) as _);
    Guard::default().with_oversight(Oversight { redact, ..Oversight::default() })
}

/// Calls a tool through the guard, as if a person had approved it.
pub(crate) fn call(
    tool: &Arc<dyn Tool>,
    arguments: Value,
    key: &EffectKey,
) -> Result<ToolOutput, ToolError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(call_async(tool, arguments, key))
}

/// The same in a test that is async itself.
pub(crate) async fn call_async(
    tool: &Arc<dyn Tool>,
    arguments: Value,
    key: &EffectKey,
) -> Result<ToolOutput, ToolError> {
    call_under(&Guard::default(), tool, arguments, key).await
}

/// The same under a guard.
pub(crate) async fn call_under(
    guard: &Guard,
    tool: &Arc<dyn Tool>,
    arguments: Value,
    key: &EffectKey,
) -> Result<ToolOutput, ToolError> {
    let name = tool.spec().name().to_owned();
    let call = ToolCall::new("call_1", &name, &arguments);
    let cx = ToolCx::new(ToolCxParts {
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
        outside: Arc::new(Nobody),
    });
    match guard.check(tool, &call, /*approved*/ true) {
        Verdict::Allow(permit) => guard.run(permit, cx).await,
        Verdict::Invalid(text) => Err(ToolError::Retry(text)),
        Verdict::Deny(_) | Verdict::Ask(_) => Err(ToolError::Failed("not allowed".to_owned())),
    }
}
