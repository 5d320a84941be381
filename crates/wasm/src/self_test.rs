//! What really keeps modules in on this machine, found out by running some.

mod modules;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_core::contract::{RequestTool, ToolContractError, ToolErrorCode, ToolRequest};
use provost_core::resource::{HumanDuration, ToolResource, ToolType, WasmSpec};
use provost_sandbox::{Proof, Scratch, Trial};
use provost_tool::{Attempt, Credentials, ToolRuntime as _};
use tokio_util::sync::CancellationToken;

use crate::error::WasmError;
use crate::host;
use crate::runtime::{LIMIT_DETAIL, WasmOptions, WasmRuntime};
use crate::wasi::preview1;

/// The longest that one trial may take.
const TRIAL_TIME: Duration = Duration::from_secs(10);
/// The time of a module that never ends.
const ENDLESS_TIME: Duration = Duration::from_millis(100);
/// Fuel that is given to a module that never ends.
const FUEL_GIVEN: u64 = 1_000_000;
/// All other bounds hold where fuel is counted, and where it is off.
const FUEL_EITHER_WAY: [u64; 2] = [u64::MAX, 0];
/// Memory that is given to a module that asks for 16 MiB.
const MEMORY_GIVEN: u64 = 1 << 20;
/// The code with which a module says that it has found nothing.
const NOTHING_FOUND: i32 = 7;

/// Tries everything that modules are kept in by, each with a module that goes against it.
pub async fn examine() -> Result<Vec<Trial>, WasmError> {
    let scratch = Scratch::open().map_err(WasmError::io("no directory"))?;
    let modules = Some(scratch.path().to_owned());
    let runtime = WasmRuntime::open(WasmOptions { modules, ..WasmOptions::default() })?;
    let lab = Lab { runtime, dir: scratch.path() };
    let tried = [
        ("modules", "a machine that runs them", lab.runs().await),
        ("imports", "a linker that knows only what is declared", lab.imports()),
        ("files", "no descriptors but the streams", lab.files().await),
        ("network", "no sockets, and no hosts but those declared", lab.network()),
        ("environment", "no variables but those of the manifest", lab.environment().await),
        ("fuel", "a count of instructions", lab.fuel().await),
        ("time", "a look at the deadline at every turn of a module", lab.time().await),
        ("memory", "a meter that each growth asks first", lab.memory().await),
        ("output", "a count of what is written", lab.output().await),
    ];
    let trial = |(what, how, proof): (_, &str, _)| {
        let proof = match proof {
            Ok(()) => Proof::Held,
            Err(why) => Proof::Broken(why),
        };
        Trial { backend: "wasm", what, is_held: true, how: how.to_owned(), proof }
    };
    Ok(tried.into_iter().map(trial).collect())
}

/// An `Err` says how it showed that something is not held.
type Held = Result<(), String>;

struct Lab<'a> {
    runtime: WasmRuntime,
    dir: &'a Path,
}

impl Lab<'_> {
    async fn runs(&self) -> Held {
        let tool = self.tool("answer", modules::ANSWER)?;
        match self.call(&tool).await {
            Ok(text) if text == "here" => Ok(()),
            Ok(text) => Err(format!("a module answered `{text}`")),
            Err(fault) => Err(fault.message),
        }
    }

    fn imports(&self) -> Held {
        self.refuses([("env", "system"), (host::NAME, "kv_set"), (host::NAME, "log")])
    }

    fn network(&self) -> Held {
        self.refuses([
            (preview1::NAME, "sock_accept"),
            (preview1::NAME, "sock_send"),
            (host::NAME, "http_send"),
        ])
    }

    async fn files(&self) -> Held {
        let tool = self.tool("open", modules::OPEN)?;
        match self.code(&tool).await? {
            1 => Err("a file was opened".to_owned()),
            2 => Err("a directory was found".to_owned()),
            NOTHING_FOUND => Ok(()),
            code => Err(format!("a module ended with code {code}")),
        }
    }

    async fn environment(&self) -> Held {
        let tool = self.tool("variables", modules::VARIABLES)?;
        match self.code(&tool).await? - NOTHING_FOUND {
            0 => Ok(()),
            count => Err(format!("{count} variables were seen where none is given")),
        }
    }

    async fn fuel(&self) -> Held {
        let tool = self.tool("endless", modules::ENDLESS)?;
        let tool = with(tool, |spec| spec.fuel = FUEL_GIVEN);
        self.stops(&tool, ToolErrorCode::ExecutionFailed, "fuel").await
    }

    async fn time(&self) -> Held {
        for fuel in FUEL_EITHER_WAY {
            let tool = self.tool("endless", modules::ENDLESS)?;
            let mut tool = with(tool, |spec| spec.fuel = fuel);
            tool.runtime.timeout = HumanDuration(ENDLESS_TIME);
            self.stops(&tool, ToolErrorCode::Timeout, "time").await?;
        }
        // Who waited is told at the deadline, and the module is gone when its turn is over.
        let gone = async {
            while self.runtime.running() > 0 {
                tokio::task::yield_now().await;
            }
        };
        let gone = tokio::time::timeout(TRIAL_TIME, gone).await;
        gone.map_err(|_elapsed| "a module that never ends goes on".to_owned())
    }

    async fn memory(&self) -> Held {
        for fuel in FUEL_EITHER_WAY {
            let tool = self.tool("grow", modules::GROW)?;
            let tool = with(tool, |spec| {
                (spec.fuel, spec.max_memory_bytes) = (fuel, MEMORY_GIVEN);
            });
            self.stops(&tool, ToolErrorCode::ExecutionFailed, "memory").await?;
        }
        Ok(())
    }

    async fn output(&self) -> Held {
        for fuel in FUEL_EITHER_WAY {
            let tool = self.tool("flood", modules::FLOOD)?;
            let tool = with(tool, |spec| spec.fuel = fuel);
            self.stops(&tool, ToolErrorCode::ExecutionFailed, "output").await?;
        }
        Ok(())
    }

    /// A tool of a module that may have nothing but WASI.
    fn tool(&self, name: &str, module: &[u8]) -> Result<ToolResource, String> {
        let file = format!("{name}.wasm");
        let written = fs::write(self.dir.join(&file), module);
        written.map_err(|error| format!("no module can be written: {error}"))?;
        let mut tool = ToolResource::new(name, ToolType::Wasm, "");
        tool.wasm = Some(WasmSpec { module: file, ..WasmSpec::default() });
        tool.runtime.timeout = HumanDuration(TRIAL_TIME);
        Ok(tool)
    }

    async fn call(&self, tool: &ToolResource) -> Result<String, ToolContractError> {
        self.runtime.check(tool)?;
        let request = ToolRequest {
            request_id: "doctor".to_owned(),
            input_raw: "{}".to_owned(),
            tool: RequestTool { name: tool.name.clone(), ..RequestTool::default() },
            namespace: "default".to_owned(),
            ..ToolRequest::default()
        };
        let attempt = Attempt {
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

    /// The code with which a module ends itself.
    async fn code(&self, tool: &ToolResource) -> Result<i32, String> {
        let fault = self.call(tool).await.err();
        let code = fault.as_ref().and_then(|fault| fault.details.get("exit_code")?.parse().ok());
        code.ok_or_else(|| match fault {
            Some(fault) => fault.message,
            None => "a module did not say what it found".to_owned(),
        })
    }

    /// A module that goes on beyond a bound is stopped by this very bound.
    async fn stops(&self, tool: &ToolResource, code: ToolErrorCode, limit: &str) -> Held {
        match self.call(tool).await {
            Ok(_) => Err("a module went beyond it".to_owned()),
            Err(fault) => {
                let is_it = fault.details.get(LIMIT_DETAIL).is_some_and(|found| found == limit);
                if is_it && fault.code == code { Ok(()) } else { Err(fault.message) }
            }
        }
    }

    /// A module that imports one of these is refused before it runs.
    fn refuses(&self, imports: [(&str, &str); 3]) -> Held {
        for (module, name) in imports {
            let tool = self.tool("importing", &importing(module, name))?;
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

fn with(mut tool: ToolResource, change: impl FnOnce(&mut WasmSpec)) -> ToolResource {
    if let Some(spec) = &mut tool.wasm {
        change(spec);
    }
    tool
}

/// A module that imports one function and exports another that does nothing. Both names are short.
fn importing(module: &str, name: &str) -> Vec<u8> {
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
        assert_eq!(wat::parse_str(text).unwrap(), importing("env", "system"));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn everything_that_keeps_modules_in_holds() {
        for trial in examine().await.unwrap() {
            assert_eq!(trial.proof, Proof::Held, "{trial:?}");
        }
    }

    /// What is not held is told: here nothing is bounded, and a variable is given.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_does_not_hold_is_found_out() {
        let scratch = Scratch::open().unwrap();
        let modules = Some(scratch.path().to_owned());
        let options = WasmOptions { modules, ..WasmOptions::default() };
        let lab = Lab { runtime: WasmRuntime::open(options).unwrap(), dir: scratch.path() };
        let grow = lab.tool("grow", modules::GROW).unwrap();
        assert!(lab.stops(&grow, ToolErrorCode::ExecutionFailed, "memory").await.is_err());
        let variables = lab.tool("variables", modules::VARIABLES).unwrap();
        let given = with(variables, |spec| spec.env = [("A".to_owned(), "b".to_owned())].into());
        assert_eq!(lab.code(&given).await, Ok(NOTHING_FOUND + 1));
        assert!(lab.refuses([(preview1::NAME, "fd_write"); 3]).is_err());
    }
}
