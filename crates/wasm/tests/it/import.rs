//! Modules that want what they may not have are refused before they run.

use provost_core::contract::ToolErrorCode;
use provost_core::resource::ToolResource;
use provost_tool::ToolRuntime as _;

use crate::stage::{Room, answering, assembled, declared, nothing};

fn importing(import: &str) -> String {
    format!(r#"(module {import} (memory (export "memory") 1) (func (export "run")))"#)
}

/// What is said about a definition, before and instead of a call.
async fn refused(room: &Room, tool: &ToolResource) -> String {
    let checked = room.runtime.check(tool).unwrap_err();
    assert_eq!(checked.code, ToolErrorCode::RuntimePolicyInvalid, "{}", checked.message);
    // Whoever skips the check gets no further.
    let called = room.runtime.invoke(room.attempt(tool, nothing())).await.unwrap_err();
    assert_eq!(called.message, checked.message);
    checked.message
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_declared_is_not_there() {
    let room = Room::open();
    for (import, hint) in [
        (r#"(import "env" "system" (func (param i32) (result i32)))"#, "no grant provides it"),
        (
            r#"(import "wasi_snapshot_preview1" "sock_accept" (func (param i32 i32 i32) (result i32)))"#,
            "no grant provides it",
        ),
        (
            r#"(import "wasi_snapshot_preview1" "proc_raise" (func (param i32) (result i32)))"#,
            "no grant provides it",
        ),
        (
            r#"(import "wasi_snapshot_preview1" "proc_exec" (func (param i32) (result i32)))"#,
            "no grant provides it",
        ),
        (
            r#"(import "wasi_unstable" "fd_write" (func (param i32 i32 i32 i32) (result i32)))"#,
            "no grant provides it",
        ),
        (r#"(import "env" "memory" (memory 1))"#, "must define its own memory"),
        (r#"(import "env" "table" (table 1 funcref))"#, "must define its own memory"),
        (r#"(import "provost" "log" (func (param i32 i32)))"#, "declare `log: true`"),
        (
            r#"(import "provost" "kv_get" (func (param i32 i32 i32 i32) (result i32)))"#,
            "declare `kv: true`",
        ),
        (
            r#"(import "provost" "http_send" (func (param i32 i32) (result i32)))"#,
            "declare its `hosts`",
        ),
    ] {
        let text = match import.contains("(memory") {
            true => format!(r#"(module {import} (func (export "run")))"#),
            false => importing(import),
        };
        let said = refused(&room, &room.wat(&text)).await;
        assert!(said.contains(hint), "{import}: {said}");
    }
    // Declared, each is there.
    let log = room.wat(&importing(r#"(import "provost" "log" (func (param i32 i32)))"#));
    assert!(room.runtime.check(&declared(log, |spec| spec.log = true)).is_ok());
    // Without WASI a module has nothing at all.
    let wasi = declared(room.wat(&answering("", "")), |spec| spec.enable_wasi = false);
    assert!(refused(&room, &wasi).await.contains("`enable_wasi` is off"));
    // A function that is there, in another shape.
    let shape = room.wat(&importing(
        r#"(import "wasi_snapshot_preview1" "fd_write" (func (param i64) (result i32)))"#,
    ));
    let called = room.runtime.invoke(room.attempt(&shape, nothing())).await.unwrap_err();
    assert_eq!(called.code, ToolErrorCode::RuntimePolicyInvalid);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_module_is_refused() {
    let room = Room::open();
    let sound = assembled(&answering("", ""));
    let mut cut = sound.clone();
    cut.truncate(sound.len() / 2);
    for (what, bytes) in [
        ("nothing", Vec::new()),
        ("text", b"(module)".to_vec()),
        ("a program", b"\x7fELF\x02\x01\x01".to_vec()),
        ("half of one", cut),
        ("a head alone", b"\0asm".to_vec()),
    ] {
        let said = refused(&room, &room.tool("m.wasm", &bytes)).await;
        let is_rejected = said.starts_with("the file is") || said.starts_with("the module is");
        assert!(is_rejected, "{what}: {said}");
    }
    // Sound in its sections, and wrong inside.
    let wrong = r#"(module (memory (export "memory") 1) (func (export "run") (i32.const 1)))"#;
    let tool = room.tool("w.wasm", &assembled(wrong));
    let called = room.runtime.invoke(room.attempt(&tool, nothing())).await.unwrap_err();
    assert_eq!(called.code, ToolErrorCode::RuntimePolicyInvalid, "{}", called.message);
    let entry = declared(room.tool("e.wasm", &sound), |spec| spec.entrypoint = "main".to_owned());
    assert!(refused(&room, &entry).await.contains("`main`"));
    let none = room.wat(r#"(module (func (export "other")))"#);
    assert!(refused(&room, &none).await.contains("neither `_start` nor `run`"));
    let taking = room.wat(r#"(module (func (export "run") (param i32)))"#);
    assert_eq!(
        room.call(&taking, nothing()).await.unwrap_err().code,
        ToolErrorCode::ExecutionFailed
    );
}

#[test]
fn memory_that_is_shared_by_threads_is_refused() {
    let room = Room::open();
    let shared =
        wat::parse_str(r#"(module (memory (export "memory") 1 2 shared) (func (export "run")))"#)
            .unwrap();
    let tool = room.tool("shared.wasm", &shared);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let called =
        runtime.block_on(async { room.runtime.invoke(room.attempt(&tool, nothing())).await });
    assert_eq!(called.unwrap_err().code, ToolErrorCode::RuntimePolicyInvalid);
}
