//! Cost of a WASM module: a warm call, the first call of a new process, computation against native code, and 1,000
//! concurrent calls.

mod work;

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_core::contract::{RequestTool, ToolRequest};
use provost_core::resource::{ToolResource, ToolType, WasmSpec};
use provost_tool::{Credentials, ToolInvocation, ToolRuntime as _};
use provost_wasm::{WasmOptions, WasmRuntime};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::work::WORKLOADS;
use crate::measure::{Pairs, median, memory, within};
use crate::table::{Table, Unit};
use crate::{Plan, Result};

/// Limit of a warm call.
const WARM_SECONDS_MAX: f64 = 100e-6;
/// Limit of the first call with a compiled module.
const FIRST_SECONDS_MAX: f64 = 5e-3;
/// Minimum speed, relative to native code.
const SPEED_MIN: f64 = 0.5;
/// Concurrent calls, and the limit of the memory of the process.
const CONCURRENT_CALLS: usize = 1_000;
const CROWD_BYTES_MAX: f64 = 1.5e9;
/// Timeout of each wait.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A runtime and the directory of its modules.
struct Bench {
    dir: PathBuf,
    runtime: WasmRuntime,
}

impl Bench {
    fn open(dir: &Path) -> Result<Self> {
        let (modules, cache) = (dir.join("modules"), dir.join("cache"));
        std::fs::create_dir_all(&modules)?;
        let options =
            WasmOptions { modules: Some(modules), cache: Some(cache), ..WasmOptions::default() };
        Ok(Self { dir: dir.to_owned(), runtime: WasmRuntime::open(options)? })
    }

    fn tool(&self, name: &str, bytes: &[u8]) -> Result<Arc<ToolResource>> {
        std::fs::write(self.dir.join("modules").join(name), bytes)?;
        let mut tool = ToolResource::new("bench", ToolType::Wasm, "");
        let spec =
            WasmSpec { module: name.to_owned(), fuel: u64::MAX, kv: true, ..WasmSpec::default() };
        tool.wasm = Some(spec);
        Ok(Arc::new(tool))
    }

    async fn call(&self, tool: &Arc<ToolResource>) -> Result<String> {
        let arguments = json!({ "text": "one two three" });
        let request = ToolRequest {
            request_id: "bench".to_owned(),
            input_raw: arguments.to_string(),
            tool: RequestTool { name: tool.name.clone(), ..RequestTool::default() },
            attempt: 1,
            ..ToolRequest::default()
        };
        let attempt = ToolInvocation {
            tool: Arc::clone(tool),
            arguments: Arc::new(arguments),
            request: Arc::new(request),
            effect_key: "bench".to_owned(),
            conversation: None,
            credentials: Credentials::default(),
            deadline: Instant::now() + TIMEOUT,
            cancel: CancellationToken::new(),
            progress: Arc::new(|_| {}),
            redact: None,
        };
        let came = self.runtime.invoke(attempt).await.map_err(|fault| fault.message)?;
        Ok(came.to_text())
    }
}

/// Measures all parts, one after another.
pub(crate) fn measure(plan: Plan, table: &mut Table) -> Result<()> {
    let threads =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let dir = tempfile::tempdir()?;
    threads.block_on(async {
        let mut modules =
            vec![Module { name: "from WAT", bytes: wat::parse_str(answering("", ""))? }];
        match built() {
            Some(bytes) => modules.push(Module { name: "from C, 160 KB", bytes }),
            None => table.unmeasured("a module from C", "scripts/setup wasm has not built it"),
        }
        for module in &modules {
            calls(plan, module, dir.path(), table).await?;
        }
        speed(plan, dir.path(), table).await?;
        crowd(dir.path(), table).await
    })
}

/// A module to measure.
struct Module {
    name: &'static str,
    bytes: Vec<u8>,
}

/// Returns the C module of the tests, if it was built.
fn built() -> Option<Vec<u8>> {
    let dir = std::env::var_os("PROVOST_WASM_MODULES").filter(|dir| !dir.is_empty())?;
    std::fs::read(PathBuf::from(dir).join("c.wasm")).ok()
}

async fn calls(plan: Plan, module: &Module, dir: &Path, table: &mut Table) -> Result<()> {
    let bench = Bench::open(dir)?;
    let Module { name, bytes } = module;
    let tool = bench.tool("calls.wasm", bytes)?;
    let compiled = Instant::now();
    bench.call(&tool).await?;
    let compiled = compiled.elapsed().as_secs_f64();
    let (batches, uses) = (plan.pick(30, 7), plan.pick(500, 100));
    let mut warm = Vec::new();
    for _ in 0..batches {
        let began = Instant::now();
        for _ in 0..uses {
            black_box(bench.call(&tool).await?);
        }
        warm.push(began.elapsed().as_secs_f64() / f64::from(uses));
    }
    let mut first = Vec::new();
    for _ in 0..plan.pick(30, 7) {
        let fresh = Bench::open(dir)?;
        let began = Instant::now();
        fresh.call(&tool).await?;
        first.push(began.elapsed().as_secs_f64());
    }
    table.number(&format!("a module {name}: the first call ever, compiled"), Unit::Time, compiled);
    let what = format!("a module {name}: first call from the compiled cache");
    table.at_most(&what, Unit::Time, median(first), FIRST_SECONDS_MAX);
    table.at_most(
        &format!("a module {name}: a warm call"),
        Unit::Time,
        median(warm),
        WARM_SECONDS_MAX,
    );
    Ok(())
}

/// Measures the same work in a module and in native code, alternately.
async fn speed(plan: Plan, dir: &Path, table: &mut Table) -> Result<()> {
    let bench = Bench::open(dir)?;
    for work in WORKLOADS {
        let rounds = plan.pick(work.rounds, work.rounds.div_ceil(5));
        let body = (work.module)(rounds, (work.native)(rounds));
        let bytes = wat::parse_str(answering("", &body))?;
        let tool = bench.tool(&format!("{}.wasm", work.name), &bytes)?;
        bench.call(&tool).await?;
        let mut pairs = Pairs::default();
        for _ in 0..plan.pick(9, 3) {
            let began = Instant::now();
            bench.call(&tool).await?;
            let provost = began.elapsed().as_secs_f64();
            let began = Instant::now();
            black_box((work.native)(black_box(rounds)));
            // Speed instead of duration.
            pairs.push(1.0 / provost, 1.0 / began.elapsed().as_secs_f64());
        }
        let what = format!("work of the processor in a module: a {}", work.name);
        table.ratio_at_least(&what, Unit::PerSecond, &pairs, SPEED_MIN);
    }
    Ok(())
}

/// Measures 1,000 calls that have each touched a megabyte and are inside their module at the same time.
async fn crowd(dir: &Path, table: &mut Table) -> Result<()> {
    let bench = Arc::new(Bench::open(dir)?);
    let more = r#"(import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))"#;
    let body = r"(drop (memory.grow (i32.const 15)))
        (memory.fill (i32.const 65536) (i32.const 7) (i32.const 983040))
        (i32.store (i32.const 2064) (i32.const 1)) (i64.store (i32.const 2072) (i64.const 60000000000))
        (drop (call $poll (i32.const 2048) (i32.const 3072) (i32.const 1) (i32.const 4096)))";
    let tool = bench.tool("crowd.wasm", &wat::parse_str(answering(more, body))?)?;
    let calls: Vec<_> = (0..CONCURRENT_CALLS)
        .map(|_| {
            let (bench, tool) = (Arc::clone(&bench), Arc::clone(&tool));
            tokio::spawn(async move { bench.call(&tool).await.is_ok() })
        })
        .collect();
    let all_in = async {
        while bench.runtime.memory_bytes() < (CONCURRENT_CALLS as u64) << 20 {
            tokio::task::yield_now().await;
        }
    };
    within(TIMEOUT, "a thousand modules never ran at once", all_in).await?;
    let used = memory()?;
    table.at_most(
        "1,000 calls of a 1 MB module at once: memory of the process",
        Unit::Bytes,
        used,
        CROWD_BYTES_MAX,
    );
    for call in calls {
        call.abort();
    }
    Ok(())
}

/// Returns a module that executes `body` and responds.
fn answering(more: &str, body: &str) -> String {
    let answer = r#"{\"contract_version\":\"v1\",\"status\":\"ok\",\"output\":\"done\"}"#;
    let size = answer.replace('\\', "").len();
    format!(
        r#"(module
            (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
            {more}
            (memory (export "memory") 1)
            (data (i32.const 1024) "{answer}")
            (func (export "run") {body}
                (i32.store (i32.const 0) (i32.const 1024))
                (i32.store (i32.const 4) (i32.const {size}))
                (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#
    )
}
