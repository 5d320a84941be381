//! The suite for every runtime, and the matrix of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use provost_core::resource::{
    A2aSpec, GrpcEncoding, HttpSpec, HumanDuration, ToolResource, ToolType,
};
use provost_tool::ToolRuntime;
use provost_tool_runtime::conformance::{Group, Report, Scene, Seen, Stage, conform, matrix};
use provost_tool_runtime::{
    A2aRuntime, CallbackDesk, ExternalRuntime, GrpcRuntime, HttpRuntime, WebhookOptions,
    WebhookRuntime,
};
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::cli;
use crate::grpc::GrpcBackend;
use crate::mcp;
use crate::stage::outbound;

/// A stage on our own server.
struct Own {
    name: &'static str,
    wire: &'static str,
    backend: Backend,
    runtime: Arc<dyn ToolRuntime>,
    kind: ToolType,
}

impl Stage for Own {
    fn name(&self) -> &str {
        self.name
    }

    fn runtime(&self) -> Arc<dyn ToolRuntime> {
        Arc::clone(&self.runtime)
    }

    fn tool(&self, scene: Scene) -> Option<ToolResource> {
        let mut tool = ToolResource::new("acting", self.kind, self.backend.url(self.wire, scene));
        let envelope = matches!(scene, Scene::Garbage | Scene::WrongId);
        match self.kind {
            ToolType::Http if envelope => {
                tool.http = Some(HttpSpec { envelope, ..HttpSpec::default() });
            }
            ToolType::A2a => {
                let poll_interval = Some(HumanDuration(Duration::from_millis(5)));
                tool.a2a = Some(A2aSpec { poll_interval, ..A2aSpec::default() });
            }
            // What is called back is checked before it is handed in, and what never comes is a timeout.
            ToolType::WebhookCallback
                if self.name.ends_with("callback") && (envelope || scene == Scene::Endless) =>
            {
                return None;
            }
            _ => {}
        }
        Some(tool)
    }

    fn arguments(&self, _scene: Scene, text: &str) -> Value {
        match self.kind {
            ToolType::A2a => json!({ "message": text }),
            _ => json!({ "text": text }),
        }
    }

    fn seen(&self) -> Option<Vec<Seen>> {
        Some(self.backend.acts.seen.lock().unwrap().clone())
    }

    fn busy(&self) -> Option<usize> {
        Some(self.backend.acts.busy.load(Ordering::SeqCst))
    }
}

async fn own(
    name: &'static str,
    wire: &'static str,
    runtime: impl FnOnce(&Backend) -> Arc<dyn ToolRuntime>,
) -> Own {
    let backend = Backend::start().await;
    let runtime = runtime(&backend);
    let kind = runtime.kind();
    Own { name, wire, backend, runtime, kind }
}

fn quick() -> WebhookOptions {
    let poll = Duration::from_millis(5);
    WebhookOptions { poll, poll_max: poll, ..WebhookOptions::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_runtime_conforms() {
    let calling_back = |backend: &Backend| {
        let base = format!("http://{}/callbacks", backend.address).parse().unwrap();
        let desk = CallbackDesk::with_random_key(base).unwrap();
        *backend.acts.desk.lock().unwrap() = Some(desk.clone());
        let options = WebhookOptions { desk: Some(desk), ..WebhookOptions::default() };
        Arc::new(WebhookRuntime::new(outbound(), options)) as Arc<dyn ToolRuntime>
    };
    let mut reports: Vec<Report> = Vec::new();
    let stages = [
        own("http", "http", |_| Arc::new(HttpRuntime::new(outbound()))).await,
        own("external", "external", |_| Arc::new(ExternalRuntime::new(outbound()))).await,
        own("webhook, poll", "later", |_| Arc::new(WebhookRuntime::new(outbound(), quick()))).await,
        own("webhook, callback", "later", calling_back).await,
        own("a2a", "a2a", |_| Arc::new(A2aRuntime::new(outbound()))).await,
    ];
    let behind = Own {
        name: "http, behind a proxy",
        backend: stages[0].backend.behind_proxy().await,
        runtime: Arc::clone(&stages[0].runtime),
        ..stages[0]
    };
    for stage in stages.iter().chain([&behind]) {
        reports.push(conform(stage).await);
    }
    for encoding in [GrpcEncoding::Protobuf, GrpcEncoding::Json] {
        let runtime = Arc::new(GrpcRuntime::new(outbound()));
        let stage = GrpcBackend::start(encoding, runtime).await;
        reports.push(conform(&stage).await);
    }
    reports.push(conform(&mcp::own().await).await);
    if let Some(stage) = mcp::everything() {
        reports.push(conform(&stage).await);
    }
    for stage in cli::Programs::everywhere().await {
        reports.push(conform(&stage).await);
    }
    println!("{}", matrix(&reports));
    let broken: Vec<String> = reports.iter().flat_map(Report::broken).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    for report in &reports {
        for group in Group::ALL {
            assert!(report.holds(group), "{}: {}", report.stage, group.as_str());
        }
    }
}
