//! Verifies the isolation of modules on this machine by running modules that try to break it.

mod modules;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_core::contract::{RequestTool, ToolContractError, ToolErrorCode, ToolRequest};
use provost_core::resource::{HumanDuration, ToolResource, ToolType, WasmSpec};
use provost_sandbox::{ScratchDir, SelfTestCase, SelfTestResult};
use provost_tool::{Credentials, ToolInvocation, ToolRuntime as _};
use tokio_util::sync::CancellationToken;

use crate::error::WasmError;
use crate::host;
use crate::runtime::{LIMIT_DETAIL, WasmOptions, WasmRuntime};
use crate::wasi::preview1;

/// Time limit of one case.
const CASE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of a module that never ends.
const ENDLESS_TIME: Duration = Duration::from_millis(100);
/// Fuel of a module that never ends.
const FUEL_LIMIT: u64 = 1_000_000;
/// The other limits must hold with and without counting fuel.
const FUEL_MODES: [u64; 2] = [u64::MAX, 0];
/// Memory limit of a module that requests 16 MiB.
const MEMORY_LIMIT: u64 = 1 << 20;
/// Exit code of a module that found nothing.
const NOTHING_FOUND: i32 = 7;

/// Tests every isolation guarantee with a module that violates it, and returns one result for each guarantee. Returns
/// an error only if the test itself cannot run.
pub async fn self_test() -> Result<Vec<SelfTestCase>, WasmError> {
    let scratch = ScratchDir::open().map_err(WasmError::io("cannot create a directory"))?;
    let modules = Some(scratch.path().to_owned());
    let runtime = WasmRuntime::open(WasmOptions { modules, ..WasmOptions::default() })?;
    let test = SelfTest { runtime, dir: scratch.path() };
    let results = [
        ("modules", "an engine that runs modules", test.check_execution().await),
        ("imports", "a linker with only the declared functions", test.check_imports()),
        ("files", "no descriptors except the standard streams", test.check_files().await),
        ("network", "no sockets, and only the declared hosts", test.check_network()),
        ("environment", "only the variables of the manifest", test.check_environment().await),
        ("fuel", "a count of instructions", test.check_fuel().await),
        ("time", "a check of the deadline at every tick", test.check_time().await),
        ("memory", "a limiter that checks every growth", test.check_memory().await),
        ("output", "a counter of written bytes", test.check_output().await),
    ];
    let case = |(name, mechanism, result): (_, &str, _)| {
        let result = match result {
            Ok(()) => SelfTestResult::Passed,
            Err(observation) => SelfTestResult::Failed(observation),
        };
        SelfTestCase {
            backend: "wasm",
            name,
            is_enforced: true,
            mechanism: mechanism.to_owned(),
            result,
        }
    };
    Ok(results.into_iter().map(case).collect())
}

/// Result of a check. An error describes the violation.
type CheckResult = Result<(), String>;

/// Runtime and directory of the test.
struct SelfTest<'a> {
    runtime: WasmRuntime,
    dir: &'a Path,
}

impl SelfTest<'_> {
    /// Checks that a module runs and returns its output.
    async fn check_execution(&self) -> CheckResult {
        let tool = self.tool_for("answer", modules::ANSWER)?;
        match self.call(&tool).await {
            Ok(text) if text == "here" => Ok(()),
            Ok(text) => Err(format!("a module answered `{text}`")),
            Err(fault) => Err(fault.message),
        }
    }

    /// Checks that undeclared functions cannot be imported.
    fn check_imports(&self) -> CheckResult {
        self.assert_imports_rejected([
            ("env", "system"),
            (host::NAME, "kv_set"),
            (host::NAME, "log"),
        ])
    }

    /// Checks that functions of sockets cannot be imported.
    fn check_network(&self) -> CheckResult {
        self.assert_imports_rejected([
            (preview1::NAME, "sock_accept"),
            (preview1::NAME, "sock_send"),
            (host::NAME, "http_send"),
        ])
    }

    /// Checks that a module can open neither a file nor a directory.
    async fn check_files(&self) -> CheckResult {
        let tool = self.tool_for("open", modules::OPEN)?;
        match self.exit_code(&tool).await? {
            1 => Err("a file was opened".to_owned()),
            2 => Err("a directory was found".to_owned()),
            NOTHING_FOUND => Ok(()),
            code => Err(format!("a module ended with code {code}")),
        }
    }

    /// Checks that a module sees no environment variables.
    async fn check_environment(&self) -> CheckResult {
        let tool = self.tool_for("variables", modules::VARIABLES)?;
        match self.exit_code(&tool).await? - NOTHING_FOUND {
            0 => Ok(()),
            count => Err(format!("{count} variables were visible instead of none")),
        }
    }

    /// Checks that the limit of instructions stops an endless module.
    async fn check_fuel(&self) -> CheckResult {
        let tool = self.tool_for("endless", modules::ENDLESS)?;
        let tool = with_spec(tool, |spec| spec.fuel = FUEL_LIMIT);
        self.assert_stopped(&tool, ToolErrorCode::ExecutionFailed, "fuel").await
    }

    /// Checks that the time limit stops an endless module, with and without a limit of instructions.
    async fn check_time(&self) -> CheckResult {
        for fuel in FUEL_MODES {
            let tool = self.tool_for("endless", modules::ENDLESS)?;
            let mut tool = with_spec(tool, |spec| spec.fuel = fuel);
            tool.runtime.timeout = HumanDuration(ENDLESS_TIME);
            self.assert_stopped(&tool, ToolErrorCode::Timeout, "time").await?;
        }
        // The call has returned at its deadline; the module itself ends with its time slice.
        let gone = async {
            while self.runtime.active_calls() > 0 {
                tokio::task::yield_now().await;
            }
        };
        let gone = tokio::time::timeout(CASE_TIMEOUT, gone).await;
        gone.map_err(|_elapsed| "an endless module keeps running after its time limit".to_owned())
    }

    /// Checks that the memory limit stops a growing module.
    async fn check_memory(&self) -> CheckResult {
        for fuel in FUEL_MODES {
            let tool = self.tool_for("grow", modules::GROW)?;
            let tool = with_spec(tool, |spec| {
                (spec.fuel, spec.max_memory_bytes) = (fuel, MEMORY_LIMIT);
            });
            self.assert_stopped(&tool, ToolErrorCode::ExecutionFailed, "memory").await?;
        }
        Ok(())
    }

    /// Checks that the output limit stops a module that writes without end.
    async fn check_output(&self) -> CheckResult {
        for fuel in FUEL_MODES {
            let tool = self.tool_for("flood", modules::FLOOD)?;
            let tool = with_spec(tool, |spec| spec.fuel = fuel);
            self.assert_stopped(&tool, ToolErrorCode::ExecutionFailed, "output").await?;
        }
        Ok(())
    }

    /// Writes a module to a file, and creates a tool for it without grants other than WASI.
    fn tool_for(&self, name: &str, module: &[u8]) -> Result<ToolResource, String> {
        let file = format!("{name}.wasm");
        let written = fs::write(self.dir.join(&file), module);
        written.map_err(|error| format!("cannot write a module: {error}"))?;
        let mut tool = ToolResource::new(name, ToolType::Wasm, "");
        tool.wasm = Some(WasmSpec { module: file, ..WasmSpec::default() });
        tool.runtime.timeout = HumanDuration(CASE_TIMEOUT);
        Ok(tool)
    }

    /// Calls a tool and returns its output as text.
    async fn call(&self, tool: &ToolResource) -> Result<String, ToolContractError> {
        self.runtime.check(tool)?;
        let request = ToolRequest {
            request_id: "doctor".to_owned(),
            input_raw: "{}".to_owned(),
            tool: RequestTool { name: tool.name.clone(), ..RequestTool::default() },
            namespace: "default".to_owned(),
            ..ToolRequest::default()
        };
        let attempt = ToolInvocation {
            tool: Arc::new(tool.clone()),
            arguments: Arc::default(),
            request: Arc::new(request.normalized()?),
            effect_key: String::new(),
            conversation: None,
            credentials: Credentials::default(),
            deadline: Instant::now() + tool.runtime.timeout.0,
            cancel: CancellationToken::new(),
            progress: Arc::new(|_| {}),
            redact: None,
        };
        self.runtime.invoke(attempt).await.map(|output| output.to_text())
    }

    /// Calls a tool and returns its exit code. Returns an error message if the call has none.
    async fn exit_code(&self, tool: &ToolResource) -> Result<i32, String> {
        let fault = self.call(tool).await.err();
        let code = fault.as_ref().and_then(|fault| fault.details.get("exit_code")?.parse().ok());
        code.ok_or_else(|| match fault {
            Some(fault) => fault.message,
            None => "a module exited without a code".to_owned(),
        })
    }

    /// Checks that this limit stops the module with this error code.
    async fn assert_stopped(
        &self,
        tool: &ToolResource,
        code: ToolErrorCode,
        limit: &str,
    ) -> CheckResult {
        match self.call(tool).await {
            Ok(_) => Err("a module exceeded the limit".to_owned()),
            Err(fault) => {
                let is_match = fault.details.get(LIMIT_DETAIL).is_some_and(|found| found == limit);
                if is_match && fault.code == code { Ok(()) } else { Err(fault.message) }
            }
        }
    }

    /// Checks that modules with these imports are rejected.
    fn assert_imports_rejected(&self, imports: [(&str, &str); 3]) -> CheckResult {
        for (module, name) in imports {
            let tool = self.tool_for("importing", &module_with_import(module, name))?;
            let full = format!("{module}.{name}");
            match self.runtime.check(&tool) {
                Err(fault) if fault.message.contains(&full) => {}
                Err(fault) => return Err(fault.message),
                Ok(()) => return Err(format!("a module may import `{full}`")),
            }
        }
        Ok(())
    }
}

/// Changes the `wasm` section of a tool.
fn with_spec(mut tool: ToolResource, change: impl FnOnce(&mut WasmSpec)) -> ToolResource {
    if let Some(spec) = &mut tool.wasm {
        change(spec);
    }
    tool
}

/// Assembles a module that imports one function and exports another that does nothing. Both names must be short.
fn module_with_import(module: &str, name: &str) -> Vec<u8> {
    let mut import = vec![1];
    for name in [module, name] {
        import.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        import.extend_from_slice(name.as_bytes());
    }
    import.extend_from_slice(b"\0\0");
    let sections: [(u8, &[u8]); 5] = [
        (1, b"\x01\x60\0\0"),
        (2, &import),
        (3, b"\x01\0"),
        (7, b"\x01\x03run\0\x01"),
        (10, b"\x01\x02\0\x0b"),
    ];
    let mut bytes = b"\0asm\x01\0\0\0".to_vec();
    for (number, section) in sections {
        bytes.extend([number, u8::try_from(section.len()).unwrap_or(u8::MAX)]);
        bytes.extend_from_slice(section);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_are_what_their_text_says() {
        let pairs: [(&str, &[u8]); 6] = [
            (include_str!("self_test/answer.wat"), modules::ANSWER),
            (include_str!("self_test/endless.wat"), modules::ENDLESS),
            (include_str!("self_test/grow.wat"), modules::GROW),
            (include_str!("self_test/flood.wat"), modules::FLOOD),
            (include_str!("self_test/open.wat"), modules::OPEN),
            (include_str!("self_test/variables.wat"), modules::VARIABLES),
        ];
        for (text, bytes) in pairs {
            assert_eq!(wat::parse_str(text).unwrap(), bytes, "{text}");
        }
        let text = r#"(module (import "env" "system" (func)) (func (export "run")))"#;
        assert_eq!(wat::parse_str(text).unwrap(), module_with_import("env", "system"));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn everything_that_keeps_modules_in_holds() {
        for case in self_test().await.unwrap() {
            assert_eq!(case.result, SelfTestResult::Passed, "{case:?}");
        }
    }

    /// A missing limit is detected: here nothing is limited, and a variable is set.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_does_not_hold_is_found_out() {
        let scratch = ScratchDir::open().unwrap();
        let modules = Some(scratch.path().to_owned());
        let options = WasmOptions { modules, ..WasmOptions::default() };
        let test = SelfTest { runtime: WasmRuntime::open(options).unwrap(), dir: scratch.path() };
        let grow = test.tool_for("grow", modules::GROW).unwrap();
        assert!(
            test.assert_stopped(&grow, ToolErrorCode::ExecutionFailed, "memory").await.is_err()
        );
        let variables = test.tool_for("variables", modules::VARIABLES).unwrap();
        let given =
            with_spec(variables, |spec| spec.env = [("A".to_owned(), "b".to_owned())].into());
        assert_eq!(test.exit_code(&given).await, Ok(NOTHING_FOUND + 1));
        assert!(test.assert_imports_rejected([(preview1::NAME, "fd_write"); 3]).is_err());
    }
}
