//! Every bound is a real one: whoever goes beyond it is stopped, told which, and gone.

use std::time::{Duration, Instant};

use provost_core::contract::ToolErrorCode;
use provost_core::resource::HumanDuration;
use provost_tool::ToolRuntime as _;

use crate::stage::{Room, answering, declared, nothing};

const LOOP: &str =
    r#"(module (memory (export "memory") 1) (func (export "run") (loop $l (br $l))))"#;

/// Uses up little and takes long: 64 KiB of chance at each turn.
const LOOP_IN_OUR_FUNCTIONS: &str = r#"(module
    (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
    (memory (export "memory") 1)
    (func (export "run") (loop $l (drop (call $random (i32.const 0) (i32.const 65536))) (br $l))))"#;

/// Fuel that does not end, and fuel that is not counted: all other bounds hold for both.
const EITHER_WAY: [u64; 2] = [u64::MAX, 0];

/// A module that runs this body.
fn module(body: &str) -> String {
    format!(r#"(module (memory (export "memory") 1) {body})"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn fuel_is_used_up_and_said_so() {
    let room = Room::open();
    let tool = declared(room.wat(LOOP), |spec| spec.fuel = 1_000_000);
    let fault = room.call(&tool, nothing()).await.unwrap_err();
    assert_eq!((fault.code, fault.retryable), (ToolErrorCode::ExecutionFailed, false));
    assert_eq!(fault.details["limit"], "fuel");
    // What needs little is not hindered.
    let tool =
        declared(room.tool("b.wasm", &crate::stage::assembled(&answering("", ""))), |spec| {
            spec.fuel = 1_000
        });
    assert_eq!(room.call(&tool, nothing()).await.unwrap().to_text(), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn fuel_that_is_off_is_not_counted() {
    let room = Room::open();
    let turns = |fuel| {
        let body = "(local $n i32) (loop $l (br_if $l (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 1000000))))";
        let tool = room.tool("turns.wasm", &crate::stage::assembled(&answering("", body)));
        declared(tool, |spec| spec.fuel = fuel)
    };
    assert_eq!(room.call(&turns(0), nothing()).await.unwrap().to_text(), "done");
    // The same module where it is counted, while the other is on the shelf, and the other way round.
    let fault = room.call(&turns(1_000), nothing()).await.unwrap_err();
    assert_eq!(fault.details["limit"], "fuel");
    assert_eq!(room.call(&turns(0), nothing()).await.unwrap().to_text(), "done");
    assert_eq!(room.call(&turns(100_000_000), nothing()).await.unwrap().to_text(), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_loops_ends_at_its_time_and_holds_nobody_up() {
    for fuel in EITHER_WAY {
        a_loop_holds_nobody_up(LOOP, fuel).await;
        a_loop_holds_nobody_up(LOOP_IN_OUR_FUNCTIONS, fuel).await;
    }
}

async fn a_loop_holds_nobody_up(module: &str, fuel: u64) {
    let room = Room::open();
    let mut tool = declared(room.wat(module), |spec| spec.fuel = fuel);
    tool.runtime.timeout = HumanDuration(Duration::from_millis(300));
    let quick = room.tool("quick.wasm", &crate::stage::assembled(&answering("", "")));
    room.call(&quick, nothing()).await.unwrap();
    // Many more than there are processors, all at it for ever.
    let loops = (0..32).map(|_| room.call(&tool, nothing()));
    let beside = async {
        let began = Instant::now();
        let came = room.call(&quick, nothing()).await.unwrap();
        assert_eq!(came.to_text(), "done");
        began.elapsed()
    };
    let (ended, beside) = tokio::join!(futures::future::join_all(loops), beside);
    for fault in ended.into_iter().map(Result::unwrap_err) {
        assert_eq!((fault.code, fault.details["limit"].as_str()), (ToolErrorCode::Timeout, "time"));
    }
    assert!(beside < Duration::from_secs(10), "{beside:?}");
    nothing_is_left(&room).await;
}

/// Nothing runs and nothing holds memory, soon.
async fn nothing_is_left(room: &Room) {
    let gone = async {
        while room.runtime.active_calls() > 0 || room.runtime.memory_bytes() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::stage::PATIENCE, gone).await.expect("a module goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_nobody_waits_for_any_more_ends() {
    for fuel in EITHER_WAY {
        a_call_given_up_ends(fuel).await;
    }
}

async fn a_call_given_up_ends(fuel: u64) {
    let room = Room::open();
    let tool = declared(room.wat(LOOP), |spec| spec.fuel = fuel);
    let attempt = room.attempt(&tool, nothing());
    let (cancel, call) = (attempt.cancel.clone(), room.runtime.invoke(attempt));
    let stop = async {
        while room.runtime.active_calls() == 0 {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let (came, ()) = tokio::join!(call, stop);
    assert_eq!(came.unwrap_err().code, ToolErrorCode::Canceled);
    nothing_is_left(&room).await;
    // The same by dropping.
    let mut call = room.runtime.invoke(room.attempt(&tool, nothing()));
    while room.runtime.active_calls() == 0 {
        assert!(futures::poll!(&mut call).is_pending());
        tokio::task::yield_now().await;
    }
    drop(call);
    nothing_is_left(&room).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_counted_for_each_call_and_for_all_together() {
    for fuel in EITHER_WAY {
        memory_is_counted(fuel).await;
    }
}

async fn memory_is_counted(fuel: u64) {
    let grow = |pages: u32| {
        answering(
            "",
            &format!(
                "(if (i32.eq (memory.grow (i32.const {pages})) (i32.const -1)) (then unreachable))"
            ),
        )
    };
    let room = Room::with(|options| options.memory_bytes_total = 8 << 20);
    let given =
        |tool, bytes| declared(tool, |spec| (spec.fuel, spec.max_memory_bytes) = (fuel, bytes));
    let tool = given(room.wat(&grow(32)), 1 << 20);
    let fault = room.call(&tool, nothing()).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.details["limit"].as_str()),
        (ToolErrorCode::ExecutionFailed, "memory")
    );
    let tool = given(tool, 4 << 20);
    assert!(room.call(&tool, nothing()).await.is_ok());
    // It may have this much for itself, but all calls together may not.
    let tool = given(room.tool("c.wasm", &crate::stage::assembled(&grow(200))), 64 << 20);
    let fault = room.call(&tool, nothing()).await.unwrap_err();
    assert_eq!(fault.details["limit"], "memory of all calls together");
    nothing_is_left(&room).await;
    // A module that wants more than it may have from the start does not start.
    let large = r#"(module (memory (export "memory") 100) (func (export "run")))"#;
    let tool = given(room.tool("d.wasm", &crate::stage::assembled(large)), 1 << 20);
    assert_eq!(room.call(&tool, nothing()).await.unwrap_err().details["limit"], "memory");
    let tool = given(tool, u64::MAX);
    assert_eq!(room.runtime.check(&tool).unwrap_err().details["field"], "wasm.max_memory_bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_stack_and_output_have_an_end() {
    for fuel in EITHER_WAY {
        tables_stack_and_output_end(fuel).await;
    }
}

async fn tables_stack_and_output_end(fuel: u64) {
    let room = Room::open();
    let made = |name: &str, text: &str| {
        declared(room.tool(name, &crate::stage::assembled(text)), |spec| spec.fuel = fuel)
    };
    let table = module(
        r#"(table 1 funcref) (func (export "run") (if (i32.eq (table.grow (ref.null func) (i32.const 5000000)) (i32.const -1)) (then unreachable)))"#,
    );
    let fault = room.call(&made("table.wasm", &table), nothing()).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.details["limit"].as_str()),
        (ToolErrorCode::ExecutionFailed, "table")
    );

    let deep = module(
        r#"(func $deeper (param i64) (result i64) (i64.add (i64.const 1) (call $deeper (local.get 0)))) (func (export "run") (drop (call $deeper (i64.const 1))))"#,
    );
    let fault = room.call(&made("deep.wasm", &deep), nothing()).await.unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::ExecutionFailed);
    assert!(fault.message.contains("call stack exhausted"), "{}", fault.message);

    for stream in [1, 2] {
        let flood = format!(
            r#"(module (import "wasi_snapshot_preview1" "fd_write" (func $w (param i32 i32 i32 i32) (result i32)))
               (memory (export "memory") 2)
               (func (export "run")
                 (i32.store (i32.const 4) (i32.const 65536))
                 (loop $l (drop (call $w (i32.const {stream}) (i32.const 0) (i32.const 1) (i32.const 8))) (br $l))))"#
        );
        let tool = made(&format!("flood{stream}.wasm"), &flood);
        let fault = room.call(&tool, nothing()).await.unwrap_err();
        assert_eq!(
            (fault.code, fault.details["limit"].as_str()),
            (ToolErrorCode::ExecutionFailed, "output")
        );
        assert!(!fault.retryable);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_sleeps_ends_at_its_time() {
    let room = Room::open();
    let sleep = answering(
        r#"(import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))"#,
        r#"(i32.store (i32.const 2064) (i32.const 1)) (i64.store (i32.const 2072) (i64.const NANOS))
           (drop (call $poll (i32.const 2048) (i32.const 3072) (i32.const 1) (i32.const 4096)))"#,
    );
    let tool = room.wat(&sleep.replace("NANOS", "1000000"));
    assert_eq!(room.call(&tool, nothing()).await.unwrap().to_text(), "done");
    let mut tool = room.tool(
        "long.wasm",
        &crate::stage::assembled(&sleep.replace("NANOS", "9000000000000000000")),
    );
    tool.runtime.timeout = HumanDuration(Duration::from_millis(200));
    assert_eq!(room.call(&tool, nothing()).await.unwrap_err().code, ToolErrorCode::Timeout);
    nothing_is_left(&room).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_fails_says_why() {
    let room = Room::open();
    let exit = r#"(module
        (import "wasi_snapshot_preview1" "fd_write" (func $w (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 1) (data (i32.const 64) "no pears\0aleft")
        (func (export "_start")
          (i32.store (i32.const 0) (i32.const 64)) (i32.store (i32.const 4) (i32.const 13))
          (drop (call $w (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8)))
          (call $exit (i32.const 3))))"#;
    let fault = room.call(&room.wat(exit), nothing()).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.details["exit_code"].as_str()),
        (ToolErrorCode::ExecutionFailed, "3")
    );
    assert_eq!(fault.message, "the module exited with code 3: no pears left");
    assert!(
        fault.retryable && !fault.details.contains_key("outcome"),
        "nothing outside was touched"
    );
    let trap = module(r#"(func (export "run") unreachable)"#);
    let fault = room
        .call(&room.tool("t.wasm", &crate::stage::assembled(&trap)), nothing())
        .await
        .unwrap_err();
    assert_eq!((fault.code, fault.retryable), (ToolErrorCode::ExecutionFailed, false));
    let code = module(r#"(func (export "run") (result i32) (i32.const 7))"#);
    let fault = room
        .call(&room.tool("e.wasm", &crate::stage::assembled(&code)), nothing())
        .await
        .unwrap_err();
    assert_eq!(fault.details["exit_code"], "7");
    let silent = module(r#"(func (export "run"))"#);
    let fault = room
        .call(&room.tool("s.wasm", &crate::stage::assembled(&silent)), nothing())
        .await
        .unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::RuntimePolicyInvalid);
}

/// What is kept for the next call is empty, and so is what was given back.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_finds_nothing_of_those_before_it() {
    let room = Room::open();
    let mark = "(drop (memory.grow (i32.const 7)))
        (memory.fill (i32.const 8192) (i32.const 7) (i32.const 500000))
        (table.set (i32.const 3) (ref.func $f)) (global.set $g (i32.const 5))";
    let look = "(drop (memory.grow (i32.const 7))) (local.set $at (i32.const 8192))
        (loop $l
          (if (i64.ne (i64.load (local.get $at)) (i64.const 0)) (then unreachable))
          (br_if $l (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 8))) (i32.const 508000))))
        (if (i32.eqz (ref.is_null (table.get (i32.const 3)))) (then unreachable))
        (if (global.get $g) (then unreachable))";
    let more =
        "(table 8 funcref) (elem declare func $f) (func $f) (global $g (mut i32) (i32.const 0))";
    for fuel in EITHER_WAY {
        let [mark, look] = [("mark.wasm", mark), ("look.wasm", look)].map(|(name, body)| {
            let text = answering(more, &format!("(local $at i32) {body}"));
            let tool = room.tool(name, &crate::stage::assembled(&text));
            declared(tool, |spec| spec.fuel = fuel)
        });
        for _ in 0..20 {
            for tool in [&mark, &look, &mark, &look, &look] {
                assert_eq!(room.call(tool, nothing()).await.unwrap().to_text(), "done");
            }
        }
    }
}
