//! Components that are no commands, and what they may import.

use provost_core::contract::ToolErrorCode;
use provost_tool::ToolRuntime as _;

use crate::stage::{Room, assembled, declared, nothing};

/// A component that answers a request with a fixed response, made of a core module by hand.
fn answering(imports: &str) -> Vec<u8> {
    let answer =
        r#"{\"contract_version\":\"v1\",\"status\":\"ok\",\"output\":\"from a component\"}"#;
    let size = answer.replace('\\', "").len();
    assembled(&format!(
        r#"(component
            {imports}
            (core module $m
                (memory (export "memory") 2)
                (data (i32.const 16) "{answer}")
                (global $top (mut i32) (i32.const 4096))
                (func (export "realloc") (param i32 i32 i32 i32) (result i32)
                    (global.get $top)
                    (global.set $top (i32.add (global.get $top) (local.get 3))))
                (func (export "call") (param i32 i32) (result i32)
                    (i32.store (i32.const 0) (i32.const 16))
                    (i32.store (i32.const 4) (i32.const {size}))
                    (i32.const 0)))
            (core instance $i (instantiate $m))
            (func (export "call") (param "request" string) (result string)
                (canon lift (core func $i "call") (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))"#
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_is_a_function_is_called_as_one() {
    let room = Room::open();
    let tool = room.tool("call.wasm", &answering(""));
    assert_eq!(room.call(&tool, nothing()).await.unwrap().to_text(), "from a component");
    // Its bounds are those of every module.
    let poor = declared(tool.clone(), |spec| spec.max_memory_bytes = 65536);
    assert_eq!(room.call(&poor, nothing()).await.unwrap_err().details["limit"], "memory");
    let tired = declared(tool.clone(), |spec| spec.fuel = 3);
    let fault = room.call(&tired, nothing()).await.unwrap_err();
    assert_eq!(fault.details["limit"], "fuel", "{}", fault.message);
    let free = declared(tool, |spec| spec.fuel = 0);
    assert_eq!(room.call(&free, nothing()).await.unwrap().to_text(), "from a component");
    let poor = declared(free, |spec| spec.max_memory_bytes = 65536);
    assert_eq!(room.call(&poor, nothing()).await.unwrap_err().details["limit"], "memory");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_gets_the_interfaces_of_its_manifest() {
    let room = Room::open();
    let log = r#"(import "provost:tool/log@1.0.0" (instance (export "write" (func (param "text" string)))))"#;
    let tool = room.tool("log.wasm", &answering(log));
    let fault = room.runtime.check(&tool).unwrap_err();
    assert!(fault.message.contains("declare `log: true`"), "{}", fault.message);
    let tool = declared(tool, |spec| spec.log = true);
    assert_eq!(room.call(&tool, nothing()).await.unwrap().to_text(), "from a component");
    for import in [
        "wasi:sockets/tcp@0.2.0",
        "wasi:http/outgoing-handler@0.2.0",
        "wasi:cli/command@0.2.0",
        "acme:root/shell@1.0.0",
    ] {
        let wants = format!(r#"(import "{import}" (instance (export "go" (func))))"#);
        let tool = room.tool("wants.wasm", &answering(&wants));
        let fault = room.runtime.check(&tool).unwrap_err();
        assert_eq!(fault.code, ToolErrorCode::RuntimePolicyInvalid);
        assert!(fault.message.contains("no grant provides it"), "{import}: {}", fault.message);
    }
}
