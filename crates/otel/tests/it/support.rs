//! Shared helpers of the tests.

use std::sync::LazyLock;
use std::time::Duration;

use provost_agent::{Agent, AgentBuilder};
use provost_model::{ScriptedModel, ScriptedTurn};
use provost_otel::{Telemetry, TelemetryBuilder};
use provost_tool::{FnTool, ToolError, tool_fn};
use tracing::Dispatch;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;

use crate::receiver::Receiver;

/// Timeout of a shutdown in the tests.
pub(crate) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);

/// Telemetry of the current thread, with a receiver.
pub(crate) struct TelemetryFixture {
    pub(crate) telemetry: Telemetry,
    pub(crate) receiver: Receiver,
    _guard: DefaultGuard,
}

impl TelemetryFixture {
    /// Starts a receiver and installs the telemetry. No environment variable is set.
    pub(crate) async fn start(with: impl FnOnce(TelemetryBuilder) -> TelemetryBuilder) -> Self {
        let receiver = Receiver::start().await;
        let builder = bare().otlp_http(&receiver.url);
        let telemetry = with(builder).build().unwrap();
        let guard = subscribe(&telemetry);
        Self { telemetry, receiver, _guard: guard }
    }

    /// Shuts the telemetry down and returns the receiver with all exported data.
    pub(crate) async fn end(self) -> Receiver {
        self.telemetry.shutdown(SHUTDOWN_TIMEOUT).await.unwrap();
        self.receiver
    }
}

/// Returns a builder without environment variables.
pub(crate) fn bare() -> TelemetryBuilder {
    Telemetry::builder().env(|_| None)
}

/// Returns a lookup function for these variables.
pub(crate) fn env<const N: usize>(
    variables: [(&'static str, &str); N],
) -> impl Fn(&str) -> Option<String> + Send + Sync + 'static {
    let variables = variables.map(|(name, value)| (name, value.to_owned()));
    move |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
}

pub(crate) fn subscribe(telemetry: &Telemetry) -> DefaultGuard {
    // With only one subscriber, a call site that is first reached on a thread without subscriber stays disabled for
    // all threads.
    static ALWAYS: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Registry::default()));
    LazyLock::force(&ALWAYS);
    tracing::subscriber::set_default(Registry::default().with(telemetry.layer()))
}

pub(crate) fn script(turns: impl IntoIterator<Item = ScriptedTurn>) -> ScriptedModel {
    turns.into_iter().fold(ScriptedModel::new(), ScriptedModel::turn)
}

/// Arguments of the test tools.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Say {
    #[serde(default)]
    pub(crate) text: String,
}

/// Returns an agent with an echo tool and a tool that always fails.
pub(crate) fn agent(name: &str, model: &ScriptedModel) -> AgentBuilder {
    Agent::builder(name, model.clone()).tool(echo()).tool(broken())
}

fn echo() -> FnTool {
    tool_fn("echo", "Returns its argument", |_cx, args: Say| async move {
        Ok::<_, ToolError>(format!("echo: {}", args.text))
    })
    .unwrap()
}

fn broken() -> FnTool {
    tool_fn("broken", "Always fails", |_cx, _args: Say| async move {
        Err::<String, _>(ToolError::failed("it broke"))
    })
    .unwrap()
}
