//! The suite for every runtime, and the matrix of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use provost_core::resource::{
    A2aSpec, GrpcEncoding, HttpSpec, HumanDuration, ToolResource, ToolType,
};
use provost_tool::ToolRuntime;
use provost_tool_runtime::conformance::{
    Group, ObservedCall, Report, Scenario, TestBackend, matrix, run_conformance,
};
use provost_tool_runtime::{
    A2aRuntime, CallbackOptions, CallbackRegistry, CallbackRuntime, ExternalRuntime, GrpcRuntime,
    HttpRuntime,
};
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::cli;
use crate::grpc::GrpcBackend;
use crate::mcp;
use crate::support::http_client;

/// A backend on our own server.
struct Own {
    name: &'static str,
    wire: &'static str,
    backend: Backend,
    runtime: Arc<dyn ToolRuntime>,
    kind: ToolType,
}

impl TestBackend for Own {
    fn name(&self) -> &str {
        self.name
    }

    fn runtime(&self) -> Arc<dyn ToolRuntime> {
        Arc::clone(&self.runtime)
    }

    fn tool(&self, scene: Scenario) -> Option<ToolResource> {
        let mut tool = ToolResource::new("acting", self.kind, self.backend.url(self.wire, scene));
        let envelope = matches!(scene, Scenario::Garbage | Scenario::WrongId);
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
                if self.name.ends_with("callback") && (envelope || scene == Scenario::Endless) =>
            {
                return None;
            }
            _ => {}
        }
        Some(tool)
    }

    fn arguments(&self, _scene: Scenario, text: &str) -> Value {
        match self.kind {
            ToolType::A2a => json!({ "message": text }),
            _ => json!({ "text": text }),
        }
    }

    fn observed_calls(&self) -> Option<Vec<ObservedCall>> {
        Some(self.backend.acts.seen.lock().unwrap().clone())
    }

    fn active_calls(&self) -> Option<usize> {
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

fn quick() -> CallbackOptions {
    let poll = Duration::from_millis(5);
    CallbackOptions { poll, poll_max: poll, ..CallbackOptions::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_runtime_conforms() {
    let calling_back = |backend: &Backend| {
        let base = format!("http://{}/callbacks", backend.address).parse().unwrap();
        let callbacks = CallbackRegistry::with_random_key(base).unwrap();
        *backend.acts.callbacks.lock().unwrap() = Some(callbacks.clone());
        let options = CallbackOptions { callbacks: Some(callbacks), ..CallbackOptions::default() };
        Arc::new(CallbackRuntime::new(http_client(), options)) as Arc<dyn ToolRuntime>
    };
    let mut reports: Vec<Report> = Vec::new();
    let backends = [
        own("http", "http", |_| Arc::new(HttpRuntime::new(http_client()))).await,
        own("external", "external", |_| Arc::new(ExternalRuntime::new(http_client()))).await,
        own("webhook, poll", "later", |_| Arc::new(CallbackRuntime::new(http_client(), quick())))
            .await,
        own("webhook, callback", "later", calling_back).await,
        own("a2a", "a2a", |_| Arc::new(A2aRuntime::new(http_client()))).await,
    ];
    let behind = Own {
        name: "http, behind a proxy",
        backend: backends[0].backend.behind_proxy().await,
        runtime: Arc::clone(&backends[0].runtime),
        ..backends[0]
    };
    for backend in backends.iter().chain([&behind]) {
        reports.push(run_conformance(backend).await);
    }
    for encoding in [GrpcEncoding::Protobuf, GrpcEncoding::Json] {
        let runtime = Arc::new(GrpcRuntime::new(http_client()));
        let backend = GrpcBackend::start(encoding, runtime).await;
        reports.push(run_conformance(&backend).await);
    }
    reports.push(run_conformance(&mcp::own().await).await);
    if let Some(backend) = mcp::everything() {
        reports.push(run_conformance(&backend).await);
    }
    for backend in cli::Programs::everywhere().await {
        reports.push(run_conformance(&backend).await);
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
