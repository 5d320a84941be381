//! The suite that every runtime passes, with modules from four languages.

use std::fs;
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::contract::ToolErrorCode;
use provost_core::resource::{ToolResource, WasmSpec};
use provost_tool::ToolRuntime;
use provost_tool_runtime::conformance::{
    Group, ObservedCall, Report, Scenario, TestBackend, matrix, run_conformance,
};
use provost_wasm::{KeyValueError, KeyValueScope, KeyValueStore, ModuleRequest};

use crate::stage::{Room, assembled, built, tool};

const SCENES: [Scenario; 9] = [
    Scenario::Echo,
    Scenario::Hang,
    Scenario::Flaky,
    Scenario::Broken,
    Scenario::Unauthorised,
    Scenario::Forbidden,
    Scenario::Garbage,
    Scenario::WrongId,
    Scenario::Endless,
];

/// Keeps what actors say that they have seen.
#[derive(Default)]
struct Diary(Mutex<Vec<ObservedCall>>);

impl KeyValueStore for Diary {
    fn get<'a>(
        &'a self,
        _: &'a KeyValueScope,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, KeyValueError>> {
        std::future::ready(Ok(None)).boxed()
    }

    fn set<'a>(
        &'a self,
        _: &'a KeyValueScope,
        _: &'a str,
        value: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), KeyValueError>> {
        let request: ModuleRequest = serde_json::from_slice(&value).unwrap();
        self.0.lock().unwrap().push(ObservedCall {
            request_id: request.request_id,
            trace_id: request.trace.trace_id,
            attempt: request.attempt,
            authorization: String::new(),
            body: String::from_utf8(value).unwrap(),
        });
        std::future::ready(Ok(())).boxed()
    }

    fn delete<'a>(
        &'a self,
        _: &'a KeyValueScope,
        _: &'a str,
    ) -> BoxFuture<'a, Result<(), KeyValueError>> {
        std::future::ready(Ok(())).boxed()
    }
}

/// A module that acts out scenes: one for each scene, or one that is told by its argument.
struct Actors {
    name: &'static str,
    room: Room,
    diary: Arc<Diary>,
    keeps_a_diary: bool,
    fuel: u64,
}

impl Actors {
    fn open(name: &'static str, module: impl Fn(usize) -> Vec<u8>) -> Self {
        let diary = Arc::new(Diary::default());
        let kept = Arc::clone(&diary);
        let room = Room::with(|options| options.kv = kept);
        for (at, scene) in SCENES.iter().enumerate() {
            fs::write(room.dir.path().join(format!("modules/{scene:?}.wasm")), module(at)).unwrap();
        }
        let fuel = WasmSpec::default().fuel;
        Self { name, room, diary, keeps_a_diary: !name.starts_with("wasm, component"), fuel }
    }

    /// Where nothing is counted.
    fn without_fuel(self) -> Self {
        Self { fuel: 0, ..self }
    }
}

impl TestBackend for Actors {
    fn name(&self) -> &str {
        self.name
    }

    fn runtime(&self) -> Arc<dyn ToolRuntime> {
        Arc::new(self.room.runtime.clone())
    }

    fn tool(&self, scene: Scenario) -> Option<ToolResource> {
        Some(tool(WasmSpec {
            module: format!("{scene:?}.wasm"),
            args: vec![format!("{scene:?}")],
            kv: true,
            fuel: self.fuel,
            ..WasmSpec::default()
        }))
    }

    fn supports_credentials(&self) -> bool {
        false
    }

    fn protocol_error_code(&self) -> ToolErrorCode {
        ToolErrorCode::RuntimePolicyInvalid
    }

    fn observed_calls(&self) -> Option<Vec<ObservedCall>> {
        self.keeps_a_diary.then(|| self.diary.0.lock().unwrap().clone())
    }

    fn active_calls(&self) -> Option<usize> {
        Some(self.room.runtime.active_calls())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn modules_from_every_language_conform() {
    let text = include_str!("../modules/actor.wat");
    let acted = |scene: usize| assembled(&text.replace("SCENE", &scene.to_string()));
    let mut stages = vec![
        Actors::open("wasm, WAT", acted),
        Actors::open("wasm, WAT, fuel off", acted).without_fuel(),
    ];
    for (name, file) in [
        ("wasm, C", "c.wasm"),
        ("wasm, AssemblyScript", "assemblyscript.wasm"),
        ("wasm, Rust", "rust-wasm32-wasip1.wasm"),
        ("wasm, component", "rust-wasm32-wasip2.wasm"),
    ] {
        match built(file) {
            Some(bytes) => stages.push(Actors::open(name, |_| bytes.clone())),
            None => println!("{name}: not built, skipped (scripts/setup wasm)"),
        }
    }
    if let Some(bytes) = built("rust-wasm32-wasip2.wasm") {
        let stage = Actors::open("wasm, component, fuel off", |_| bytes.clone());
        stages.push(stage.without_fuel());
    }
    let mut reports: Vec<Report> = Vec::new();
    for stage in &stages {
        reports.push(run_conformance(stage).await);
    }
    println!("{}", matrix(&reports));
    let broken: Vec<String> = reports.iter().flat_map(Report::failures).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    for report in &reports {
        for group in Group::ALL {
            assert!(report.passed(group), "{}: {}", report.backend, group.as_str());
        }
    }
}
