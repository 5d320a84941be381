//! Programs as tools: the suite in a real sandbox, and what no sandbox is asked to do.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use provost_core::contract::ToolCode;
use provost_core::resource::{CliOutput, CliSpec, IsolationMode, ToolResource, ToolType};
use provost_isolation::egress::NetPolicy;
use provost_isolation::{Backends, Profile};
use provost_runtime::conformance::{Scene, Seen, Stage};
use provost_runtime::{CliOptions, CliRuntime, CommandAllowList};
use provost_tool::ToolRuntime;
use serde_json::json;

use crate::stage::call;

/// Acts out a scene: reads an envelope, writes an envelope.
const ACTOR: &str = r#"
import json, sys, time
scene = sys.argv[1]
request = json.load(sys.stdin)
text = json.loads(request["input_raw"]).get("text", "")
answer = {"tool_contract_version": "v1", "request_id": request["request_id"], "status": "ok", "output": {"result": text}}
def fail(code, reason, retryable):
    answer["status"] = "error"
    answer["error"] = {"code": code, "reason": reason, "retryable": retryable, "message": "as the scene says"}
if scene == "Hang":
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True: time.sleep(60)
elif scene == "Flaky" and request.get("attempt", 1) < 3: fail("execution_failed", "tool_backend_failure", True)
elif scene == "Broken": fail("execution_failed", "tool_backend_failure", False)
elif scene == "Unauthorised": fail("auth_invalid", "tool_auth_invalid", False)
elif scene == "Forbidden": fail("auth_forbidden", "tool_auth_forbidden", False)
elif scene == "Garbage": print("no json"); sys.exit(0)
elif scene == "WrongId": answer["request_id"] = "another"
elif scene == "Endless":
    while True: print("x" * 65536)
print(json.dumps(answer))
"#;

static STAGES: AtomicU32 = AtomicU32::new(0);

/// Programs in whichever sandbox for processes this machine has.
pub(crate) struct Programs {
    runtime: CliRuntime,
    mark: String,
}

impl Programs {
    /// `None` if there is no sandbox here.
    pub(crate) async fn open() -> Option<Self> {
        let backends = Backends::find(None).await;
        let profile = Profile::new(IsolationMode::Process);
        backends.select(&profile).ok()?;
        let number = STAGES.fetch_add(1, Ordering::Relaxed);
        let mark = format!("provost-actor-{}-{number}", std::process::id());
        Some(Self { runtime: runtime(backends), mark })
    }
}

fn runtime(backends: Backends) -> CliRuntime {
    CliRuntime::new(CliOptions {
        backends,
        profile: Profile::new(IsolationMode::Process),
        commands: CommandAllowList::of(["python3", "printf", "sh", "cat"]),
        network: NetPolicy::default(),
        log: Arc::new(|_| {}),
    })
}

impl Stage for Programs {
    fn name(&self) -> &str {
        "cli, process"
    }

    fn runtime(&self) -> Arc<dyn ToolRuntime> {
        Arc::new(self.runtime.clone())
    }

    fn tool(&self, scene: Scene) -> Option<ToolResource> {
        let args = ["-c", ACTOR, &format!("{scene:?}"), &self.mark];
        let args = args.map(str::to_owned).to_vec();
        let spec =
            CliSpec { command: "python3".to_owned(), args, envelope: true, ..CliSpec::default() };
        Some(tool(spec))
    }

    fn takes_credentials(&self) -> bool {
        false
    }

    fn seen(&self) -> Option<Vec<Seen>> {
        None
    }

    fn busy(&self) -> Option<usize> {
        let lines = fs::read_dir("/proc").ok()?.flatten();
        let lines = lines.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        let is_ours = |line: &Vec<u8>| String::from_utf8_lossy(line).contains(&self.mark);
        Some(lines.filter(is_ours).count())
    }
}

fn tool(spec: CliSpec) -> ToolResource {
    let mut tool = ToolResource::new("acting", ToolType::Cli, "");
    tool.runtime.isolation_mode = Some(IsolationMode::Process);
    tool.cli = Some(spec);
    tool
}

fn plain(command: &str, args: &[&str]) -> CliSpec {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    CliSpec { command: command.to_owned(), args, ..CliSpec::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_arguments_and_never_more() {
    let Some(programs) = Programs::open().await else { return };
    let spec = plain("printf", &["[%s]", "{{ text }}", "--", "{{ other }}"]);
    let nasty = "a b; $(id) `id` 'q' \"r\" \n * {{ x }}";
    let made =
        call(&programs.runtime, &tool(spec.clone()), json!({ "text": nasty, "other": "-n" })).await;
    assert_eq!(made.unwrap().to_text(), format!("[{nasty}][--][-n]"));
    let option =
        call(&programs.runtime, &tool(spec.clone()), json!({ "text": "--help", "other": "" }))
            .await;
    assert_eq!(option.unwrap_err().code, ToolCode::InvalidInput);
    let missing = call(&programs.runtime, &tool(spec), json!({ "text": "x" })).await;
    assert_eq!(missing.unwrap_err().code, ToolCode::InvalidInput);

    let mut spec =
        plain("sh", &["-c", "cat; echo no >&2; echo \"$COLOUR\"; env | grep -c CARGO; exit 0"]);
    spec.stdin_from_input = true;
    spec.env.insert("COLOUR".to_owned(), "blue".to_owned());
    let made = call(&programs.runtime, &tool(spec.clone()), json!({ "a": 1 })).await.unwrap();
    assert_eq!(made.to_text(), "{\"a\":1}blue\n0\n");
    spec.output = CliOutput::Stderr;
    assert_eq!(call(&programs.runtime, &tool(spec), json!({})).await.unwrap().to_text(), "no\n");

    let failed =
        call(&programs.runtime, &tool(plain("sh", &["-c", "echo why >&2; exit 3"])), json!({}))
            .await;
    let failed = failed.unwrap_err();
    assert_eq!(failed.code, ToolCode::ExecutionFailed);
    assert!(failed.message.contains("code 3: why"), "{}", failed.message);
    assert!(!failed.retryable, "nobody knows what it had done");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_allowed_or_not_isolated_does_not_run() {
    let missing = runtime(Backends::default());
    let refused = missing.check(&tool(plain("sh", &[]))).unwrap_err();
    assert_eq!(refused.code, ToolCode::IsolationUnavailable);
    let Some(programs) = Programs::open().await else { return };
    let refused = programs.runtime.check(&tool(plain("rm", &["x"]))).unwrap_err();
    assert_eq!(refused.code, ToolCode::PermissionDenied);
    let mut hosts = plain("cat", &[]);
    hosts.hosts = vec!["no host/".to_owned()];
    let refused = programs.runtime.check(&tool(hosts.clone())).unwrap_err();
    assert_eq!(refused.code, ToolCode::RuntimePolicyInvalid);
    // Without a launcher nothing carries words to the proxy.
    hosts.hosts = vec!["api.example.com".to_owned()];
    let refused = programs.runtime.check(&tool(hosts)).unwrap_err();
    assert_eq!(refused.code, ToolCode::IsolationUnavailable);
    let said_nothing = ToolResource::new("t", ToolType::Cli, "");
    assert_eq!(said_nothing.isolation(), IsolationMode::Sandboxed);
    assert!(said_nothing.normalised().is_err());
}
