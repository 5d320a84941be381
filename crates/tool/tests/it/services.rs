//! Guard services: redaction, artifacts, truncation and records.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::usage::limits::TOOL_OUTPUT_BYTES_MAX;
use provost_core::{Document, ToolResultPart};
use provost_tool::{
    Artifact, ArtifactStore, ArtifactWriter, AuditOutcome, AuditRecord, FileArtifactStore, FnTool,
    Guard, GuardServices, OutputCollector, RECORD_TIMEOUT, RecordSink, SinkError, Tool,
    ToolContext, ToolError, ToolFuture, ToolOutput, ToolSpec, UsageRecord,
};
use serde_json::json;

use crate::fakes::{
    FakeAttempt, FakeRedactor, FakeRuntime, RecordList, SECRET, governed, host, run,
};
use crate::support::{self, FakeApprover};

fn tool(body: impl Fn(ToolContext) -> ToolFuture + Send + Sync + 'static) -> Arc<dyn Tool> {
    let spec = ToolSpec::new("talk", "Talks", json!({})).unwrap();
    Arc::new(FnTool::new(spec, move |_permit, cx| body(cx)))
}

fn returning(output: ToolOutput) -> Arc<dyn Tool> {
    tool(move |_cx| std::future::ready(Ok(output.clone())).boxed())
}

fn fails(error: ToolError) -> Arc<dyn Tool> {
    tool(move |_cx| std::future::ready(Err(error.clone())).boxed())
}

fn guard_with(services: GuardServices) -> Guard {
    Guard::default().with_services(services)
}

fn redacting_guard() -> Guard {
    guard_with(GuardServices { redact: Some(Arc::new(FakeRedactor)), ..GuardServices::default() })
}

/// Name and content of an artifact.
type StoredArtifact = (String, Vec<u8>);

/// Artifact store in memory. It fails on open if `fails` is set.
#[derive(Default)]
struct FakeArtifactStore {
    records: Arc<Mutex<Vec<StoredArtifact>>>,
    fails: bool,
}

struct FakeArtifactWriter {
    records: Arc<Mutex<Vec<StoredArtifact>>>,
    name: String,
    bytes: Vec<u8>,
}

impl ArtifactStore for FakeArtifactStore {
    fn open<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Box<dyn ArtifactWriter>>> {
        let writer = FakeArtifactWriter {
            records: Arc::clone(&self.records),
            name: name.to_owned(),
            bytes: Vec::new(),
        };
        let opened = if self.fails { Err(io::Error::other("no room")) } else { Ok(writer) };
        std::future::ready(opened.map(|writer| Box::new(writer) as Box<dyn ArtifactWriter>)).boxed()
    }
}

impl ArtifactWriter for FakeArtifactWriter {
    fn write(&mut self, chunk: Vec<u8>) -> BoxFuture<'_, io::Result<()>> {
        self.bytes.extend(chunk);
        std::future::ready(Ok(())).boxed()
    }

    fn finish(self: Box<Self>) -> BoxFuture<'static, io::Result<Artifact>> {
        let bytes = self.bytes.len() as u64;
        let reference = format!("shelf/{}", self.name);
        self.records.lock().unwrap().push((self.name, self.bytes));
        std::future::ready(Ok(Artifact { reference, bytes, is_truncated: false })).boxed()
    }
}

#[tokio::test]
async fn a_secret_leaves_a_tool_on_no_way() {
    let guard = redacting_guard();
    let file = Document::bytes("hunter2.txt", "text/plain", b"it is hunter2");
    let output = ToolOutput::text("a hunter2 b")
        .with(ToolResultPart::File(file))
        .with(ToolResultPart::Unknown(json!({"x": [SECRET]})))
        .with_metadata(json!({"hunter2": {"deep": "hunter2"}}));
    let output = run(&guard, &returning(output), support::cx()).await.unwrap();
    assert!(!format!("{output:?}").contains(SECRET), "{output:?}");
    let ToolResultPart::File(file) = &output.parts[1] else { panic!("the file stays a file") };
    assert_eq!(file.source.decode().unwrap(), b"it is [gone]");
    for error in [
        ToolError::failed("hunter2"),
        ToolError::retry("hunter2"),
        ToolError::Rejected(SECRET.to_owned()),
        ToolError::NeedsApproval { hint: SECRET.to_owned(), payload: Some(json!(SECRET)) },
        ToolError::Fault(ToolContractError::final_failure(SECRET).detail("where", SECRET)),
        ToolError::Fatal(provost_core::ErrorInfo::new(provost_core::ErrorKind::Bug, "bug", SECRET)),
    ] {
        let error = run(&guard, &fails(error), support::cx()).await.unwrap_err();
        let shown = format!("{error:?}");
        assert!(!shown.contains(SECRET) && shown.contains("[gone]"), "{shown}");
    }
}

#[tokio::test]
async fn a_secret_is_in_no_progress_and_in_no_question() {
    let asks = tool(|cx| {
        async move {
            cx.progress("at hunter2");
            cx.confirm_with("may hunter2 go?", json!({"key": SECRET})).await?;
            Ok(ToolOutput::text("ok"))
        }
        .boxed()
    });
    let approver = FakeApprover::approving();
    let cx = support::cx_under(&redacting_guard(), Arc::clone(&approver));
    run(&redacting_guard(), &asks, cx).await.unwrap();
    assert_eq!(*approver.progress.lock().unwrap(), ["at [gone]"]);
    let asked = approver.questions.lock().unwrap().clone();
    assert_eq!(asked, [("may [gone] go?".to_owned(), Some(json!({"key": "[gone]"})))]);
    let approver = FakeApprover::approving();
    let declared =
        governed(json!({}), host(FakeRuntime::new([FakeAttempt::Respond(Ok("hunter2 too"))])));
    let cx = support::cx_under(&redacting_guard(), Arc::clone(&approver));
    assert_eq!(run(&redacting_guard(), &declared, cx).await.unwrap().to_text(), "[gone] too");
    assert_eq!(*approver.progress.lock().unwrap(), ["half way with [gone]"]);
}

#[tokio::test]
async fn a_long_output_is_kept_whole_without_secrets_and_cut_for_the_model() {
    let store = Arc::new(FakeArtifactStore::default());
    let guard = guard_with(GuardServices {
        redact: Some(Arc::new(FakeRedactor)),
        artifacts: Some(Arc::clone(&store) as _),
        ..GuardServices::default()
    });
    // The secret lies across the place where the text is cut.
    let at = TOOL_OUTPUT_BYTES_MAX * 3 / 4 - 3;
    let long = format!("{}{SECRET}{}end", "a".repeat(at), "b".repeat(2_000_000));
    let output = run(&guard, &returning(ToolOutput::text(&long)), support::cx()).await.unwrap();
    let text = output.to_text();
    assert!(text.len() < TOOL_OUTPUT_BYTES_MAX + 512, "{}", text.len());
    assert!(text.contains("bytes cut"), "a marker says so");
    let (name, kept) = store.records.lock().unwrap()[0].clone();
    assert!(
        text.ends_with(&format!("are stored in `shelf/{name}`: read it in parts]")),
        "{}",
        &text[text.len() - 200..]
    );
    assert_eq!(String::from_utf8(kept).unwrap(), long.replace(SECRET, "[gone]"));
    assert!(!text.contains("hunt") && !text.contains("ter2"), "not even a part of it");
    let short = run(&guard, &returning(ToolOutput::text("short")), support::cx()).await.unwrap();
    assert_eq!((short.to_text().as_str(), store.records.lock().unwrap().len()), ("short", 1));
    let broken = Arc::new(FakeArtifactStore { fails: true, ..FakeArtifactStore::default() });
    let guard = guard_with(GuardServices { artifacts: Some(broken), ..GuardServices::default() });
    let output = run(&guard, &returning(ToolOutput::text(long)), support::cx()).await.unwrap();
    assert!(output.to_text().ends_with("[the full output could not be stored]"));
}

#[tokio::test]
async fn output_of_any_size_is_collected_in_constant_memory() {
    let store = Arc::new(FakeArtifactStore::default());
    let collect = |redact: Option<&dyn provost_redact::Redact>| {
        OutputCollector::new("big", Some(Arc::clone(&store) as _), redact)
    };
    let mut collector = collect(Some(&FakeRedactor));
    let mut whole = String::new();
    for number in 0..40_000 {
        let line = format!("line {number} é hunter2\n");
        whole.push_str(&line);
        // The secret is split over chunks.
        let (one, two) = line.as_bytes().split_at(line.len() - 5);
        collector.push(one).await;
        collector.push(two).await;
    }
    let text = collector.finish().await.to_text();
    assert!(text.len() <= TOOL_OUTPUT_BYTES_MAX, "{}", text.len());
    assert!(text.starts_with("line 0 é [gone]\n") && text.ends_with("line 39999 é [gone]\n"));
    assert!(text.contains("bytes cut …]\n[the full output,") && !text.contains('\u{fffd}'));
    assert!(!text.contains(SECRET));
    let kept = store.records.lock().unwrap().remove(0).1;
    assert_eq!(String::from_utf8(kept).unwrap(), whole.replace(SECRET, "[gone]"));
    // What fits is whole and leaves no artifact; bytes that are no text are shown as such.
    let mut collector = collect(None);
    collector.push(b"ok \xff\xfe").await;
    assert_eq!(collector.finish().await.to_text(), "ok \u{fffd}\u{fffd}");
    let mut collector = collect(None);
    collector.push(&vec![b'x'; TOOL_OUTPUT_BYTES_MAX]).await;
    assert_eq!(collector.finish().await.to_text().len(), TOOL_OUTPUT_BYTES_MAX);
    assert!(store.records.lock().unwrap().is_empty());
    let mut collector = collect(None);
    collector.push(&vec![b'x'; TOOL_OUTPUT_BYTES_MAX + 1]).await;
    assert!(collector.finish().await.to_text().len() <= TOOL_OUTPUT_BYTES_MAX);
    assert_eq!(store.records.lock().unwrap()[0].1.len(), TOOL_OUTPUT_BYTES_MAX + 1);
    let mut unstored = OutputCollector::new("big", None, None);
    unstored.push(&vec![b'x'; 10 * TOOL_OUTPUT_BYTES_MAX]).await;
    assert!(unstored.finish().await.to_text().contains("[the full output was not stored]"));
}

#[tokio::test]
async fn artifacts_are_files_that_only_their_owner_reads() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("outputs");
    let spill = FileArtifactStore::new(&place, ".provost/outputs/").bytes_max(10);
    let mut writer = spill.open("eff_1").await.unwrap();
    for chunk in ["hello ", "wor", "ld and more"] {
        writer.write(chunk.as_bytes().to_vec()).await.unwrap();
    }
    let artifact = writer.finish().await.unwrap();
    let reference = ".provost/outputs/eff_1.txt".to_owned();
    assert_eq!(artifact, Artifact { reference, bytes: 10, is_truncated: true });
    assert!(artifact.note().contains("the first 10 bytes"), "{}", artifact.note());
    let path = place.join("eff_1.txt");
    assert_eq!(std::fs::read(&path).unwrap(), b"hello worl");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&place)), (0o600, 0o700));
    }
    // The same call again replaces it; one that is given up leaves what was there.
    let mut again = spill.open("eff_1").await.unwrap();
    again.write(b"second".to_vec()).await.unwrap();
    again.finish().await.unwrap();
    let mut dropped = spill.open("eff_1").await.unwrap();
    dropped.write(b"third".to_vec()).await.unwrap();
    drop(dropped);
    assert_eq!(std::fs::read(&path).unwrap(), b"second");
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1, "nothing unfinished is left");
    for name in ["", "../x", "a/b", ".hidden", "a b", &"x".repeat(129)] {
        assert!(spill.open(name).await.is_err(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_recorded_before_and_after() {
    let audit: Arc<RecordList<AuditRecord>> = RecordList::new(false);
    let meter: Arc<RecordList<UsageRecord>> = RecordList::new(false);
    let guard = guard_with(GuardServices {
        redact: Some(Arc::new(FakeRedactor)),
        audit: Some(Arc::clone(&audit) as _),
        usage: Some(Arc::clone(&meter) as _),
        ..GuardServices::default()
    });
    let acts = [
        FakeAttempt::Respond(Err(ToolContractError::new(ToolErrorCode::ExecutionFailed, "down"))),
        FakeAttempt::Slow(Duration::from_millis(300)),
        FakeAttempt::Respond(Err(ToolContractError::final_failure("hunter2 is wrong"))),
    ];
    let retry = json!({"runtime": {"retry": {"max_attempts": 2}}});
    let tool = governed(retry, host(FakeRuntime::new(acts)));
    run(&guard, &tool, support::cx()).await.unwrap();
    run(&guard, &tool, support::cx()).await.unwrap_err();
    let audit = audit.records.lock().unwrap();
    let outcomes: Vec<_> = audit.iter().map(|event| event.outcome).collect();
    use AuditOutcome::{Allowed, Failed, Succeeded};
    assert_eq!(outcomes, [Allowed, Succeeded, Allowed, Failed]);
    assert_eq!(audit[1].metadata["attempts"], "2");
    assert_eq!(audit[1].metadata["duration_ms"], "300");
    assert_eq!(audit[1].metadata["arguments_sha256"].len(), 64);
    assert_eq!(
        (audit[3].message.as_str(), audit[3].metadata["status"].as_str()),
        ("[gone] is wrong", "execution_failed")
    );
    let wire = serde_json::to_value(&audit[0]).unwrap();
    assert_eq!((&wire["action"], &wire["outcome"]), (&json!("tool.call"), &json!("allowed")));
    let meter = meter.records.lock().unwrap();
    assert_eq!((meter[0].status.as_str(), meter[0].attempt), ("ok", 2));
    assert_eq!((meter[0].duration_ms, meter[0].output_bytes, meter[0].tool_calls), (300, 7, 1));
    assert_eq!((meter[1].status.as_str(), meter[1].input_bytes), ("execution_failed", 2));
}

#[tokio::test]
async fn a_call_that_cannot_be_recorded_does_not_run() {
    let runtime = FakeRuntime::new([FakeAttempt::Respond(Ok("done"))]);
    let tool = governed(json!({}), host(Arc::clone(&runtime)));
    let audit: Arc<RecordList<AuditRecord>> = RecordList::new(true);
    let guard = guard_with(GuardServices { audit: Some(audit), ..GuardServices::default() });
    let error = run(&guard, &tool, support::cx()).await.unwrap_err();
    assert_eq!(error.to_contract_error().code, ToolErrorCode::PermissionDenied);
    assert_eq!(runtime.calls(), 0);
    // What was used is told afterwards; losing that does not undo the call.
    let meter: Arc<RecordList<UsageRecord>> = RecordList::new(true);
    let guard = guard_with(GuardServices { usage: Some(meter), ..GuardServices::default() });
    assert_eq!(run(&guard, &tool, support::cx()).await.unwrap().to_text(), "done");
}

/// Keeps nothing: hangs or panics from its so-manieth record on.
struct BrokenSink {
    from: usize,
    panics: bool,
    calls: AtomicUsize,
}

impl BrokenSink {
    fn after(from: usize, panics: bool) -> Arc<Self> {
        Arc::new(Self { from, panics, calls: AtomicUsize::new(0) })
    }
}

impl<E: Send + 'static> RecordSink<E> for BrokenSink {
    fn record(&self, _event: E) -> BoxFuture<'_, Result<(), SinkError>> {
        match self.calls.fetch_add(1, Ordering::SeqCst) {
            number if number < self.from => std::future::ready(Ok(())).boxed(),
            _ if self.panics => panic!("the disk is on fire"),
            _ => std::future::pending().boxed(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_hangs_or_panics_denies_before_the_effect_and_holds_nothing_after_it() {
    for panics in [false, true] {
        let runtime = FakeRuntime::new([FakeAttempt::Respond(Ok("done"))]);
        let tool = governed(json!({}), host(Arc::clone(&runtime)));
        let audit = Some(BrokenSink::after(0, panics) as _);
        let guard = guard_with(GuardServices { audit, ..GuardServices::default() });
        let error = run(&guard, &tool, support::cx()).await.unwrap_err();
        assert_eq!(error.to_contract_error().code, ToolErrorCode::PermissionDenied, "{error}");
        assert_eq!(runtime.calls(), 0, "nothing happens that nobody wrote down");
        let (audit, meter) = (BrokenSink::after(1, panics), BrokenSink::after(0, panics));
        let guard = guard_with(GuardServices {
            audit: Some(Arc::clone(&audit) as _),
            usage: Some(Arc::clone(&meter) as _),
            ..GuardServices::default()
        });
        let started = tokio::time::Instant::now();
        assert_eq!(run(&guard, &tool, support::cx()).await.unwrap().to_text(), "done");
        assert!(started.elapsed() <= 2 * RECORD_TIMEOUT + Duration::from_secs(1));
        let asked = (audit.calls.load(Ordering::SeqCst), meter.calls.load(Ordering::SeqCst));
        assert_eq!(asked, (2, 1));
    }
}

#[tokio::test]
async fn old_artifacts_go_and_the_newest_stay_within_the_bound() {
    let dir = tempfile::tempdir().unwrap();
    let spill = FileArtifactStore::new(dir.path(), "out").total_bytes_max(25);
    let keep = async |name: &str, bytes: usize, age: Duration| {
        let mut writer = spill.open(name).await.unwrap();
        writer.write(vec![b'x'; bytes]).await.unwrap();
        writer.finish().await.unwrap();
        set_age(&dir.path().join(format!("{name}.txt")), age);
    };
    let names = || {
        let entries = std::fs::read_dir(dir.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    // Not ours, so it stays whatever its age.
    std::fs::write(dir.path().join("notes.md"), "mine").unwrap();
    set_age(&dir.path().join("notes.md"), Duration::from_secs(365 * 24 * 3600));
    // A process that was killed left this.
    std::fs::write(dir.path().join(".eff_0.1.0"), "half").unwrap();
    set_age(&dir.path().join(".eff_0.1.0"), Duration::from_secs(30 * 24 * 3600));
    keep("ancient", 1, Duration::from_secs(8 * 24 * 3600)).await;
    keep("second", 10, Duration::from_secs(200)).await;
    assert_eq!(names(), ["notes.md", "second.txt"], "too old");
    keep("third", 10, Duration::from_secs(100)).await;
    keep("fourth", 10, Duration::ZERO).await;
    // Room is made when the next one is opened, oldest first.
    keep("fifth", 1, Duration::ZERO).await;
    assert_eq!(names(), ["fifth.txt", "fourth.txt", "notes.md", "third.txt"]);
    let young = FileArtifactStore::new(dir.path(), "out").age_max(Duration::from_secs(50));
    drop(young.open("sixth").await.unwrap());
    assert_eq!(names(), ["fifth.txt", "fourth.txt", "notes.md"]);
}

fn set_age(path: &std::path::Path, age: Duration) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::now() - age).unwrap();
}
