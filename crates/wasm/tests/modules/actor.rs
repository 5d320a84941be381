//! Acts out the scene that its first argument names: reads a request, writes a response.

use std::io::{Read, Write};

/// A core module may keep what it has seen; a component would do so by its own interface.
#[cfg(target_env = "p1")]
fn keep(request: &str) {
    #[link(wasm_import_module = "provost")]
    unsafe extern "C" {
        fn kv_set(key: *const u8, key_size: usize, value: *const u8, value_size: usize) -> i32;
    }
    // SAFETY: the host reads these bytes, which are ours, and keeps no address.
    unsafe { kv_set("seen".as_ptr(), 4, request.as_ptr(), request.len()) };
}

#[cfg(not(target_env = "p1"))]
fn keep(_request: &str) {}

fn fail(code: &str, reason: &str, retryable: bool) -> String {
    format!(
        r#"{{"contract_version":"v1","status":"error","error":{{"code":"{code}","reason":"{reason}","retryable":{retryable},"message":"as the scene says"}}}}"#
    )
}

fn main() {
    let scene = std::env::args().nth(1).unwrap_or_default();
    let mut request = String::new();
    std::io::stdin().read_to_string(&mut request).unwrap();
    keep(&request);
    let attempt = request.split("\"attempt\":").nth(1).and_then(|rest| rest.bytes().next()).unwrap_or(b'1') - b'0';
    let id = if scene == "WrongId" { r#""request_id":"another","# } else { "" };
    let text = request.split(r#"\"text\":\""#).nth(1).and_then(|rest| rest.split('\\').next()).unwrap_or_default();
    let answer = match scene.as_str() {
        "Hang" => loop {
            std::hint::spin_loop();
        },
        "Flaky" if attempt < 3 => fail("execution_failed", "tool_backend_failure", true),
        "Broken" => fail("execution_failed", "tool_backend_failure", false),
        "Unauthorised" => fail("auth_invalid", "tool_auth_invalid", false),
        "Forbidden" => fail("auth_forbidden", "tool_auth_forbidden", false),
        "Garbage" => "no json".to_owned(),
        "Endless" => loop {
            std::io::stdout().write_all(&[b'x'; 4096]).unwrap();
        },
        _ => format!(r#"{{"contract_version":"v1",{id}"status":"ok","output":"{text}"}}"#),
    };
    println!("{answer}");
}
