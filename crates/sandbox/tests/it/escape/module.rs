//! Attempts to get out of a WASM module. A module cannot run the scripts of the other attempts: these are its own ways.
//!
//! A module that has got out ends itself with code 42. One that imports what it may not is refused and never runs.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_core::contract::{RequestTool, ToolContractError, ToolRequest};
use provost_core::resource::{HumanDuration, ToolResource, ToolType, WasmSpec};
use provost_tool::{Credentials, ToolInvocation, ToolRuntime as _};
use provost_wasm::{WasmOptions, WasmRuntime};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::AttackOutcome;
use super::outside::Outside;

/// One way that a module tries.
struct ModuleAttempt {
    group: &'static str,
    name: &'static str,
    /// Functions of WASI that it imports, by name.
    wasi: &'static [&'static str],
    /// What else stands in the module.
    more: &'static str,
    /// What its entry does. `(call $out)` output_of that it has got out.
    body: &'static str,
}

const fn way(
    group: &'static str,
    name: &'static str,
    wasi: &'static [&'static str],
    body: &'static str,
) -> ModuleAttempt {
    ModuleAttempt { group, name, wasi, more: "", body }
}

const fn importing(group: &'static str, name: &'static str, more: &'static str) -> ModuleAttempt {
    ModuleAttempt { group, name, wasi: &[], more, body: "(call $out)" }
}

/// Shapes of the functions that attempts use.
const SHAPES: [(&str, &str); 27] = [
    ("path_open", "(param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)"),
    ("path_filestat_get", "(param i32 i32 i32 i32 i32) (result i32)"),
    ("path_symlink", "(param i32 i32 i32 i32 i32) (result i32)"),
    ("path_link", "(param i32 i32 i32 i32 i32 i32 i32) (result i32)"),
    ("path_rename", "(param i32 i32 i32 i32 i32 i32) (result i32)"),
    ("path_unlink_file", "(param i32 i32 i32) (result i32)"),
    ("path_create_directory", "(param i32 i32 i32) (result i32)"),
    ("path_remove_directory", "(param i32 i32 i32) (result i32)"),
    ("path_readlink", "(param i32 i32 i32 i32 i32 i32) (result i32)"),
    ("fd_prestat_get", "(param i32 i32) (result i32)"),
    ("fd_prestat_dir_name", "(param i32 i32 i32) (result i32)"),
    ("fd_readdir", "(param i32 i32 i32 i64 i32) (result i32)"),
    ("fd_pread", "(param i32 i32 i32 i64 i32) (result i32)"),
    ("fd_pwrite", "(param i32 i32 i32 i64 i32) (result i32)"),
    ("fd_read", "(param i32 i32 i32 i32) (result i32)"),
    ("fd_write", "(param i32 i32 i32 i32) (result i32)"),
    ("fd_renumber", "(param i32 i32) (result i32)"),
    ("fd_seek", "(param i32 i64 i32 i32) (result i32)"),
    ("fd_filestat_get", "(param i32 i32) (result i32)"),
    ("fd_fdstat_set_rights", "(param i32 i64 i64) (result i32)"),
    ("environ_sizes_get", "(param i32 i32) (result i32)"),
    ("environ_get", "(param i32 i32) (result i32)"),
    ("args_sizes_get", "(param i32 i32) (result i32)"),
    ("clock_time_get", "(param i32 i64 i32) (result i32)"),
    ("clock_res_get", "(param i32 i32) (result i32)"),
    ("poll_oneoff", "(param i32 i32 i32 i32) (result i32)"),
    ("random_get", "(param i32 i32) (result i32)"),
];

/// Tries a call with every descriptor there could be: `D` is the descriptor. It is out if one of them works.
const EACH: &str = "(local $d i32) (local.set $d (i32.const 3)) (loop $l
    (if (i32.eqz CALL) (then (call $out)))
    (br_if $l (i32.lt_u (local.tee $d (i32.add (local.get $d) (i32.const 1))) (i32.const 1024))))";

#[rustfmt::skip]
const WAYS: [ModuleAttempt; 56] = [
    way("files", "open a file outside", &["path_open"], "EACH(call $path_open (local.get $d) (i32.const 1) (i32.const 256) (i32.const 64) (i32.const 0) (i64.const -1) (i64.const -1) (i32.const 0) (i32.const 0))"),
    way("files", "make a file outside", &["path_open"], "EACH(call $path_open (local.get $d) (i32.const 1) (i32.const 256) (i32.const 64) (i32.const 9) (i64.const -1) (i64.const -1) (i32.const 0) (i32.const 0))"),
    way("files", "open by a negative descriptor", &["path_open"], "(if (i32.eqz (call $path_open (i32.const -100) (i32.const 1) (i32.const 256) (i32.const 64) (i32.const 0) (i64.const -1) (i64.const -1) (i32.const 0) (i32.const 0))) (then (call $out)))"),
    way("files", "open below the streams", &["path_open"], "(if (i32.eqz (call $path_open (i32.const 0) (i32.const 1) (i32.const 256) (i32.const 64) (i32.const 0) (i64.const -1) (i64.const -1) (i32.const 0) (i32.const 0))) (then (call $out)))"),
    way("files", "look at a file outside", &["path_filestat_get"], "EACH(call $path_filestat_get (local.get $d) (i32.const 1) (i32.const 256) (i32.const 64) (i32.const 1024))"),
    way("files", "a link to the outside", &["path_symlink"], "EACH(call $path_symlink (i32.const 256) (i32.const 64) (local.get $d) (i32.const 256) (i32.const 4))"),
    way("files", "a hard link to the outside", &["path_link"], "EACH(call $path_link (local.get $d) (i32.const 0) (i32.const 256) (i32.const 64) (local.get $d) (i32.const 256) (i32.const 4))"),
    way("files", "move a file outside", &["path_rename"], "EACH(call $path_rename (local.get $d) (i32.const 256) (i32.const 64) (local.get $d) (i32.const 256) (i32.const 4))"),
    way("files", "remove a file outside", &["path_unlink_file"], "EACH(call $path_unlink_file (local.get $d) (i32.const 256) (i32.const 64))"),
    way("files", "make a directory", &["path_create_directory"], "EACH(call $path_create_directory (local.get $d) (i32.const 256) (i32.const 64))"),
    way("files", "remove a directory", &["path_remove_directory"], "EACH(call $path_remove_directory (local.get $d) (i32.const 256) (i32.const 64))"),
    way("files", "read a link", &["path_readlink"], "EACH(call $path_readlink (local.get $d) (i32.const 256) (i32.const 64) (i32.const 1024) (i32.const 64) (i32.const 0))"),
    way("files", "directories that were given", &["fd_prestat_get"], "EACH(call $fd_prestat_get (local.get $d) (i32.const 1024))"),
    way("files", "names of directories that were given", &["fd_prestat_dir_name"], "EACH(call $fd_prestat_dir_name (local.get $d) (i32.const 1024) (i32.const 64))"),
    way("files", "list a directory", &["fd_readdir"], "EACH(call $fd_readdir (local.get $d) (i32.const 1024) (i32.const 64) (i64.const 0) (i32.const 0))"),
    way("files", "read a descriptor of the process", &["fd_read"], "EACH(call $fd_read (local.get $d) (i32.const 64) (i32.const 1) (i32.const 0))"),
    way("files", "read one from a place on", &["fd_pread"], "EACH(call $fd_pread (local.get $d) (i32.const 64) (i32.const 1) (i64.const 0) (i32.const 0))"),
    way("files", "write a descriptor of the process", &["fd_write"], "EACH(call $fd_write (local.get $d) (i32.const 64) (i32.const 1) (i32.const 0))"),
    way("files", "write one from a place on", &["fd_pwrite"], "EACH(call $fd_pwrite (local.get $d) (i32.const 64) (i32.const 1) (i64.const 0) (i32.const 0))"),
    way("files", "put a stream in another's place", &["fd_renumber"], "EACH(call $fd_renumber (local.get $d) (i32.const 1))"),
    way("files", "look at a descriptor of the process", &["fd_filestat_get"], "EACH(call $fd_filestat_get (local.get $d) (i32.const 1024))"),
    way("files", "move in a descriptor of the process", &["fd_seek"], "EACH(call $fd_seek (local.get $d) (i64.const 0) (i32.const 0) (i32.const 1024))"),
    way("files", "give itself more rights", &["fd_fdstat_set_rights"], "(if (i32.eqz (call $fd_fdstat_set_rights (i32.const 0) (i64.const -1) (i64.const -1))) (then (call $out)))"),
    way("files", "read what is written to, not from", &["fd_read"], "(if (i32.eqz (call $fd_read (i32.const 1) (i32.const 64) (i32.const 1) (i32.const 0))) (then (call $out)))"),
    importing("network", "take a connection", r#"(import "wasi_snapshot_preview1" "sock_accept" (func (param i32 i32 i32) (result i32)))"#),
    importing("network", "read from a socket", r#"(import "wasi_snapshot_preview1" "sock_recv" (func (param i32 i32 i32 i32 i32 i32) (result i32)))"#),
    importing("network", "write to a socket", r#"(import "wasi_snapshot_preview1" "sock_send" (func (param i32 i32 i32 i32 i32) (result i32)))"#),
    importing("network", "open a socket", r#"(import "wasi_snapshot_preview1" "sock_open" (func (param i32 i32 i32) (result i32)))"#),
    importing("network", "sockets of another machine", r#"(import "wasix_32v1" "sock_connect" (func (param i32 i32) (result i32)))"#),
    importing("network", "ask a host without a list", r#"(import "provost" "http_send" (func (param i32 i32) (result i32)))"#),
    way("environment", "variables of the process", &["environ_sizes_get"], "(drop (call $environ_sizes_get (i32.const 64) (i32.const 68))) (if (i32.load (i32.const 64)) (then (call $out)))"),
    way("environment", "variables where none are", &["environ_get"], "(drop (call $environ_get (i32.const 1024) (i32.const 2048))) (if (i32.or (i32.load (i32.const 1024)) (i32.load (i32.const 2048))) (then (call $out)))"),
    way("environment", "arguments of the process", &["args_sizes_get"], "(drop (call $args_sizes_get (i32.const 64) (i32.const 68))) (if (i32.gt_u (i32.load (i32.const 64)) (i32.const 1)) (then (call $out)))"),
    importing("processes", "a program", r#"(import "env" "system" (func (param i32) (result i32)))"#),
    importing("processes", "another process", r#"(import "wasix_32v1" "proc_fork" (func (param i32 i32) (result i32)))"#),
    importing("processes", "a signal", r#"(import "wasi_snapshot_preview1" "proc_raise" (func (param i32) (result i32)))"#),
    importing("processes", "a thread", r#"(import "wasi" "thread-spawn" (func (param i32) (result i32)))"#),
    importing("processes", "memory of the process as its own", r#"(import "env" "memory" (memory 1))"#),
    importing("processes", "functions of the process as its own", r#"(import "env" "__indirect_function_table" (table 1 funcref))"#),
    way("clock", "the processor time of the process", &["clock_time_get"], "(if (i32.eqz (call $clock_time_get (i32.const 2) (i64.const 0) (i32.const 64))) (then (call $out)))"),
    way("clock", "the processor time of the thread", &["clock_time_get"], "(if (i32.eqz (call $clock_time_get (i32.const 3) (i64.const 0) (i32.const 64))) (then (call $out)))"),
    way("clock", "a clock to time others with", &["clock_res_get"], "(drop (call $clock_res_get (i32.const 1) (i32.const 64))) (if (i64.lt_u (i64.load (i32.const 64)) (i64.const 1000)) (then (call $out)))"),
    way("clock", "how long the machine is up", &["clock_time_get"], "(drop (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const 64))) (if (i64.gt_u (i64.load (i32.const 64)) (i64.const 60000000000)) (then (call $out)))"),
    way("clock", "sleep for ever", &["poll_oneoff"], "(i32.store (i32.const 1040) (i32.const 1)) (i64.store (i32.const 1048) (i64.const -1)) (drop (call $poll_oneoff (i32.const 1024) (i32.const 2048) (i32.const 1) (i32.const 64))) (call $out)"),
    importing("clock", "set the clock", r#"(import "wasi_snapshot_preview1" "clock_time_set" (func (param i32 i64) (result i32)))"#),
    way("memory", "behind its own end", &[], "(drop (i32.load (i32.const 0x7fffffff))) (call $out)"),
    way("memory", "behind its own end by an offset", &[], "(drop (i64.load offset=4294967288 (i32.const -8))) (call $out)"),
    way("memory", "let us write behind its end", &["random_get"], "(drop (call $random_get (i32.const -16) (i32.const 64))) (call $out)"),
    way("memory", "let us read behind its end", &["fd_write"], "(i32.store (i32.const 64) (i32.const -64)) (i32.store (i32.const 68) (i32.const 4096)) (drop (call $fd_write (i32.const 1) (i32.const 64) (i32.const 1) (i32.const 0))) (call $out)"),
    ModuleAttempt { group: "memory", name: "call what is no function", wasi: &[], more: "(table 1 funcref)", body: "(call_indirect (i32.const 0)) (call $out)" },
    way("exhaustion", "an endless loop", &[], "(loop $l (br $l))"),
    way("exhaustion", "endless depth", &[], "(call $deep)"),
    way("exhaustion", "memory", &[], "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (if (i32.gt_u (memory.size) (i32.const 512)) (then (call $out)))"),
    way("exhaustion", "endless output", &["fd_write"], "(i32.store (i32.const 68) (i32.const 60000)) (loop $l (drop (call $fd_write (i32.const 1) (i32.const 64) (i32.const 1) (i32.const 0))) (br $l))"),
    way("exhaustion", "endless errors", &["fd_write"], "(i32.store (i32.const 68) (i32.const 60000)) (loop $l (drop (call $fd_write (i32.const 2) (i32.const 64) (i32.const 1) (i32.const 0))) (br $l))"),
    way("exhaustion", "chance without end", &["random_get"], "(loop $l (drop (call $random_get (i32.const 0) (i32.const 65536))) (br $l))"),
];

/// The module of an attempt, which aims at what is outside.
fn module(way: &ModuleAttempt, outside: &Outside) -> String {
    let shape = |name: &&str| {
        let (name, shape) = SHAPES.iter().find(|(known, _)| known == name).unwrap();
        format!(r#"(import "wasi_snapshot_preview1" "{name}" (func ${name} {shape}))"#)
    };
    let wasi: String = way.wasi.iter().map(shape).collect();
    let body = match way.body.strip_prefix("EACH") {
        Some(call) => EACH.replace("CALL", call),
        None => way.body.to_owned(),
    };
    let memory = if way.more.contains("(memory") { "" } else { r#"(memory (export "memory") 1)"# };
    let target = outside.filled("{out}/secret");
    format!(
        r#"(module {wasi} (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32))) {}
            {memory} (data (i32.const 64) "\00\04\00\00\10\00\00\00") (data (i32.const 256) "{target}\00")
            (func $out (call $exit (i32.const 42)))
            (func $deep (call $deep) (call $deep))
            (func (export "run") {body}))"#,
        way.more
    )
}

async fn run_attempt(way: &ModuleAttempt) -> AttackOutcome {
    let outside = Outside::open();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("m.wasm"), wat::parse_str(module(way, &outside)).unwrap())
        .unwrap();
    let modules = Some(dir.path().to_owned());
    let runtime = WasmRuntime::open(WasmOptions { modules, ..WasmOptions::default() }).unwrap();
    let mut tool = ToolResource::new("escaping", ToolType::Wasm, "");
    tool.runtime.timeout = HumanDuration(Duration::from_secs(3));
    let spec =
        WasmSpec { module: "m.wasm".to_owned(), max_memory_bytes: 32 << 20, ..WasmSpec::default() };
    tool.wasm = Some(spec);
    if runtime.check(&tool).is_err() {
        return AttackOutcome::Refused;
    }
    let request = ToolRequest {
        request_id: "r".to_owned(),
        tool: RequestTool { name: tool.name.clone(), ..RequestTool::default() },
        ..ToolRequest::default()
    };
    let attempt = ToolInvocation {
        deadline: Instant::now() + tool.runtime.timeout.0,
        tool: Arc::new(tool),
        arguments: Arc::new(json!({})),
        request: Arc::new(request),
        effect_key: String::new(),
        conversation: None,
        credentials: Credentials::default(),
        cancel: CancellationToken::new(),
        progress: Arc::new(|_| {}),
        redact: None,
    };
    let came = tokio::time::timeout(Duration::from_secs(60), runtime.invoke(attempt)).await;
    let Ok(came) = came else { return AttackOutcome::Escaped("it never ended".to_owned()) };
    let said = match &came {
        Ok(output) => output.to_text(),
        Err(ToolContractError { message, .. }) => message.clone(),
    };
    let is_out = came
        .as_ref()
        .is_err_and(|fault| fault.details.get("exit_code").is_some_and(|code| code == "42"));
    if is_out || said.contains(outside.canary()) {
        return AttackOutcome::Escaped(format!("it says so: {said}"));
    }
    match outside.noticed() {
        Some(what) => AttackOutcome::Escaped(what),
        None => AttackOutcome::Contained,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_gets_out_of_a_module() {
    let mut table = format!("{:<12} {:<44} {:>24}", "group", "attempt", "wasm");
    let mut escaped = Vec::new();
    for way in &WAYS {
        let verdict = run_attempt(way).await;
        let is_wanting = way.more.contains("(import");
        let word = match &verdict {
            // What importing too much must not even start; whatever else starts must be contained, or its attempt is none.
            AttackOutcome::Contained if !is_wanting => "contained",
            AttackOutcome::Refused if is_wanting => "refused",
            other => {
                escaped.push(format!("wasm: {}: {}: {other:?}", way.group, way.name));
                "ESCAPED"
            }
        };
        write!(table, "\n{:<12} {:<44} {word:>24}", way.group, way.name).unwrap();
    }
    println!("{table}\n{} attempts of modules", WAYS.len());
    assert!(escaped.is_empty(), "{}", escaped.join("\n"));
}

/// What shows that the suite can fail.
#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_says_that_it_is_out_is_believed() {
    let verdict = run_attempt(&way("files", "it says so", &[], "(call $out)")).await;
    assert!(matches!(verdict, AttackOutcome::Escaped(_)), "{verdict:?}");
}
