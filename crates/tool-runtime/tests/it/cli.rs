//! Programs as tools: the suite in a real sandbox, and what no sandbox is asked to do.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use provost_core::contract::ToolErrorCode;
use provost_core::resource::{
    CliOutput, CliSpec, CliWorkspace, IsolationMode, ToolResource, ToolType,
};
use provost_sandbox::{IsolationProfile, SandboxRegistry};
use provost_tool::{ConversationRef, ToolRuntime};
use provost_tool_runtime::conformance::{ObservedCall, Scenario, TestBackend};
use provost_tool_runtime::{CommandAllowList, ProcessOptions, ProcessRuntime};
use provost_workspace::conversation::{ConversationWorkspaces, WorkspaceOptions};
use serde_json::json;

use crate::sandboxes;
use crate::support::{MAX_WAIT, attempt, call};

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

/// Programs in a sandbox.
pub(crate) struct Programs {
    runtime: ProcessRuntime,
    name: String,
    mark: String,
}

impl Programs {
    /// In whichever sandbox for processes this machine has; `None` if there is none.
    pub(crate) async fn open() -> Option<Self> {
        let backends = SandboxRegistry::detect(None).await;
        backends.select(&IsolationProfile::new(IsolationMode::Process)).ok()?;
        Some(Self::of("process", runtime(IsolationMode::Process, backends)))
    }

    /// In every sandbox of this machine.
    pub(crate) async fn everywhere() -> Vec<Self> {
        let all = sandboxes::all().await.into_iter();
        all.map(|(name, mode, backends)| Self::of(name, runtime(mode, backends))).collect()
    }

    fn of(name: &str, runtime: ProcessRuntime) -> Self {
        let number = STAGES.fetch_add(1, Ordering::Relaxed);
        let mark = format!("provost-actor-{}-{number}", std::process::id());
        Self { runtime, name: format!("cli, {name}"), mark }
    }
}

fn runtime(mode: IsolationMode, backends: SandboxRegistry) -> ProcessRuntime {
    ProcessRuntime::new(ProcessOptions {
        sandbox: sandboxes::sandbox(mode, backends),
        commands: CommandAllowList::of(["python3", "printf", "sh", "cat"]),
        workspaces: None,
    })
}

impl TestBackend for Programs {
    fn name(&self) -> &str {
        &self.name
    }

    fn runtime(&self) -> Arc<dyn ToolRuntime> {
        Arc::new(self.runtime.clone())
    }

    fn tool(&self, scene: Scenario) -> Option<ToolResource> {
        let args = ["-c", ACTOR, &format!("{scene:?}"), &self.mark];
        let args = args.map(str::to_owned).to_vec();
        let spec =
            CliSpec { command: "python3".to_owned(), args, envelope: true, ..CliSpec::default() };
        let mut tool = tool(spec);
        tool.runtime.isolation_mode = Some(self.runtime.isolation());
        Some(tool)
    }

    fn supports_credentials(&self) -> bool {
        false
    }

    fn observed_calls(&self) -> Option<Vec<ObservedCall>> {
        None
    }

    fn active_calls(&self) -> Option<usize> {
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
    assert_eq!(option.unwrap_err().code, ToolErrorCode::InvalidInput);
    let missing = call(&programs.runtime, &tool(spec), json!({ "text": "x" })).await;
    assert_eq!(missing.unwrap_err().code, ToolErrorCode::InvalidInput);

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
    assert_eq!(failed.code, ToolErrorCode::ExecutionFailed);
    assert!(failed.message.contains("code 3: why"), "{}", failed.message);
    assert!(!failed.retryable, "nobody knows what it had done");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_allowed_or_not_isolated_does_not_run() {
    let missing = runtime(IsolationMode::Process, SandboxRegistry::default());
    let refused = missing.check(&tool(plain("sh", &[]))).unwrap_err();
    assert_eq!(refused.code, ToolErrorCode::IsolationUnavailable);
    let Some(programs) = Programs::open().await else { return };
    let refused = programs.runtime.check(&tool(plain("rm", &["x"]))).unwrap_err();
    assert_eq!(refused.code, ToolErrorCode::PermissionDenied);
    let mut hosts = plain("cat", &[]);
    hosts.hosts = vec!["no host/".to_owned()];
    let refused = programs.runtime.check(&tool(hosts.clone())).unwrap_err();
    assert_eq!(refused.code, ToolErrorCode::RuntimePolicyInvalid);
    // Without a launcher nothing carries words to the proxy.
    hosts.hosts = vec!["api.example.com".to_owned()];
    let refused = programs.runtime.check(&tool(hosts)).unwrap_err();
    assert_eq!(refused.code, ToolErrorCode::IsolationUnavailable);
    // A secret is for one host, and that one is named.
    for hosts in [&[][..], &["*.example.com"], &["a.example.com", "b.example.com"]] {
        let mut spec = plain("cat", &[]);
        spec.hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut tool = tool(spec);
        tool.auth = Some(serde_json::from_value(json!({ "secretRef": "key" })).unwrap());
        let refused = programs.runtime.check(&tool).unwrap_err();
        assert!(refused.message.contains("exactly one host"), "{}", refused.message);
    }
    let said_nothing = ToolResource::new("t", ToolType::Cli, "");
    assert_eq!(said_nothing.isolation(), IsolationMode::Sandboxed);
    assert!(said_nothing.normalized().is_err());
}

/// The same tool finds its files again, and says what was lost.
#[tokio::test(flavor = "multi_thread")]
async fn g22_a_program_works_on_the_files_of_its_conversation() {
    let home = tempfile::tempdir().unwrap();
    let workspaces =
        ConversationWorkspaces::open(WorkspaceOptions::in_dir(home.path())).await.unwrap();
    for (name, mode, backends) in sandboxes::all().await {
        let runtime = ProcessRuntime::new(ProcessOptions {
            sandbox: sandboxes::sandbox(mode, backends),
            commands: CommandAllowList::of(["sh"]),
            workspaces: Some(workspaces.clone()),
        });
        let mut spec = plain("sh", &["-c", "cat a 2>/dev/null; echo one >> a"]);
        spec.workspace = CliWorkspace::Conversation;
        let mut tool = tool(spec);
        tool.runtime.isolation_mode = Some(mode);
        runtime.check(&tool).unwrap();
        let lost = Arc::new(AtomicU32::new(0));
        let heard = Arc::clone(&lost);
        let conversation =
            ConversationRef::new("default", name, "anna").on_workspace_reset(move |_| {
                heard.fetch_add(1, Ordering::Relaxed);
                std::future::ready(Ok(()))
            });
        let invoke = async |conversation: Option<&ConversationRef>| {
            let mut made = attempt(&tool, json!({}), MAX_WAIT);
            made.conversation = conversation.cloned();
            runtime.invoke(made).await.map(|output| output.to_text())
        };
        assert_eq!(invoke(Some(&conversation)).await.unwrap(), "", "{name}");
        assert_eq!(invoke(Some(&conversation)).await.unwrap(), "one\n", "{name}");
        let eve = ConversationRef::new("default", name, "eve");
        let refused = invoke(Some(&eve)).await.unwrap_err();
        assert_eq!(refused.code, ToolErrorCode::PermissionDenied, "{name}");
        assert!(invoke(None).await.is_err(), "{name}");
        assert_eq!(lost.load(Ordering::Relaxed), 0, "{name}");
    }
    let mut spec = plain("sh", &[]);
    spec.workspace = CliWorkspace::Conversation;
    if let Some(programs) = Programs::open().await {
        let refused = programs.runtime.check(&tool(spec)).unwrap_err();
        assert_eq!(
            refused.code,
            ToolErrorCode::RuntimePolicyInvalid,
            "there is no place for files"
        );
    }
}
