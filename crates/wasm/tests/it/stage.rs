//! What the tests share: runtimes in directories of their own, modules from WAT, single attempts.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use provost_core::contract::{RequestTool, ToolContractError, ToolRequest};
use provost_core::resource::{ToolResource, ToolType, WasmSpec};
use provost_tool::{Credentials, ToolInvocation, ToolOutput, ToolRuntime as _};
use provost_wasm::{WasmOptions, WasmRuntime};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Long enough for a busy machine, short enough to end a test that hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A runtime with a directory of modules.
pub(crate) struct Room {
    pub(crate) dir: TempDir,
    pub(crate) runtime: WasmRuntime,
    /// What modules have said.
    pub(crate) said: Arc<Mutex<Vec<String>>>,
}

impl Room {
    pub(crate) fn open() -> Self {
        Self::with(|_| {})
    }

    /// With other options.
    pub(crate) fn with(change: impl FnOnce(&mut WasmOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let modules = dir.path().join("modules");
        fs::create_dir(&modules).unwrap();
        let mut options = WasmOptions {
            modules: Some(modules),
            cache: Some(dir.path().join("cache")),
            ..WasmOptions::default()
        };
        change(&mut options);
        let runtime = WasmRuntime::open(options).unwrap();
        Self { dir, runtime, said: Arc::default() }
    }

    /// The same directory, opened again by a program that has just started.
    pub(crate) fn again(self) -> Self {
        let Self { dir, .. } = self;
        let options = WasmOptions {
            modules: Some(dir.path().join("modules")),
            cache: Some(dir.path().join("cache")),
            ..WasmOptions::default()
        };
        Self { runtime: WasmRuntime::open(options).unwrap(), dir, said: Arc::default() }
    }

    /// Puts a module there and gives a tool of it.
    pub(crate) fn tool(&self, name: &str, bytes: &[u8]) -> ToolResource {
        fs::write(self.dir.path().join("modules").join(name), bytes).unwrap();
        let spec = WasmSpec { module: name.to_owned(), ..WasmSpec::default() };
        tool(spec)
    }

    /// A tool of a module from WAT.
    pub(crate) fn wat(&self, text: &str) -> ToolResource {
        self.tool("module.wasm", &assembled(text))
    }

    /// Checks a tool and makes one attempt.
    pub(crate) async fn call(
        &self,
        tool: &ToolResource,
        arguments: Value,
    ) -> Result<ToolOutput, ToolContractError> {
        self.runtime.check(tool)?;
        let attempt = self.attempt(tool, arguments);
        let made = self.runtime.invoke(attempt);
        tokio::time::timeout(PATIENCE, made).await.expect("a call hangs")
    }

    pub(crate) fn attempt(&self, tool: &ToolResource, arguments: Value) -> ToolInvocation {
        let said = Arc::clone(&self.said);
        let request = ToolRequest {
            request_id: "req-1".to_owned(),
            input_raw: arguments.to_string(),
            tool: RequestTool { name: tool.name.clone(), ..Default::default() },
            namespace: "default".to_owned(),
            ..ToolRequest::default()
        };
        ToolInvocation {
            tool: Arc::new(tool.clone()),
            arguments: Arc::new(arguments),
            request: Arc::new(request.normalized().unwrap()),
            effect_key: "eff-1".to_owned(),
            conversation: None,
            credentials: Credentials::default(),
            deadline: Instant::now() + tool.runtime.timeout.0,
            cancel: CancellationToken::new(),
            progress: Arc::new(move |text| said.lock().unwrap().push(text)),
            redact: None,
        }
    }
}

pub(crate) fn tool(spec: WasmSpec) -> ToolResource {
    let mut tool = ToolResource::new("acting", ToolType::Wasm, "");
    tool.wasm = Some(spec);
    tool
}

/// Changes what the manifest of a tool says.
pub(crate) fn declared(mut tool: ToolResource, change: impl FnOnce(&mut WasmSpec)) -> ToolResource {
    change(tool.wasm.as_mut().unwrap());
    tool
}

pub(crate) fn assembled(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

/// A module that was built by `scripts/setup wasm`.
pub(crate) fn built(name: &str) -> Option<Vec<u8>> {
    let dir = std::env::var_os("PROVOST_WASM_MODULES").filter(|dir| !dir.is_empty())?;
    fs::read(PathBuf::from(dir).join(name)).ok()
}

/// A module that writes this answer, after doing something: `body` is put into its function, `more` beside it.
pub(crate) fn answering(more: &str, body: &str) -> String {
    let answer = r#"{\"contract_version\":\"v1\",\"status\":\"ok\",\"output\":\"done\"}"#;
    let size = answer.replace('\\', "").len();
    format!(
        r#"(module
            (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
            {more}
            (memory (export "memory") 1)
            (data (i32.const 1024) "{answer}")
            (func $answer
                (i32.store (i32.const 0) (i32.const 1024))
                (i32.store (i32.const 4) (i32.const {size}))
                (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
            (func (export "run") {body} (call $answer)))"#
    )
}

pub(crate) fn nothing() -> Value {
    json!({})
}
