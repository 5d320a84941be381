//! The vendors' own SDKs ask the fake provider. `scripts/conformance sdks` brings them; without them nothing is checked.

use std::process::Stdio;

use provost_core::Usage;
use provost_testkit::{Failure, FakeProvider, Reply};
use serde_json::json;

/// The variable that names a Python with the SDKs.
const VARIABLE: &str = "PROVOST_SDK_PYTHON";

#[tokio::test(flavor = "multi_thread")]
async fn official_sdks_understand_the_fake() {
    let Ok(python) = std::env::var(VARIABLE) else {
        return;
    };
    let text = || Reply::new().deltas(["Hello ", "there"]).usage(Usage::new(10, 5));
    let calls = |reply: Reply| {
        let reply = reply.and_call("c1", "search", &json!({"q": "a"}));
        reply.and_call("c2", "search", &json!({"q": "b"})).fragment(3)
    };
    let thoughts = || Reply::new().reasoning("hm", "sealed==");
    let provider = FakeProvider::start().await;
    provider.replies([
        text(),
        calls(Reply::new()),
        text(),
        calls(thoughts()),
        text(),
        calls(thoughts()),
        Reply::failure(Failure::RateLimited),
        Reply::failure(Failure::Auth),
        Reply::failure(Failure::UnknownModel),
    ]);
    let url = provider.base_url();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/talk.py");
    let request = tokio::task::spawn_blocking(move || {
        let mut command = std::process::Command::new(python);
        command.args([script, &url]).stdin(Stdio::null()).output()
    });
    let output = request.await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(provider.replies_left(), 0);
    println!("{said}");
}
