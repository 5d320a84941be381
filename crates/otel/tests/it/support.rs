//! What the tests share.

use std::sync::LazyLock;
use std::time::Duration;

use provost_agent::{Agent, AgentBuilder};
use provost_model::{ScriptedModel, Turn};
use provost_otel::{Builder, Telemetry};
use provost_tool::{FnTool, ToolError, tool_fn};
use tracing::Dispatch;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;

use crate::receiver::Receiver;

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Telemetry of this thread.
pub(crate) struct Watch {
    pub(crate) telemetry: Telemetry,
    pub(crate) receiver: Receiver,
    _guard: DefaultGuard,
}

impl Watch {
    /// With no variable set.
    pub(crate) async fn start(with: impl FnOnce(Builder) -> Builder) -> Self {
        let receiver = Receiver::start().await;
        let builder = bare().otlp_http(&receiver.url);
        let telemetry = with(builder).build().unwrap();
        let guard = subscribe(&telemetry);
        Self { telemetry, receiver, _guard: guard }
    }

    /// Everything that was sent up to the end.
    pub(crate) async fn end(self) -> Receiver {
        self.telemetry.shutdown(PATIENCE).await.unwrap();
        self.receiver
    }
}

/// A builder that sees no environment.
pub(crate) fn bare() -> Builder {
    Telemetry::builder().env(|_| None)
}

/// An environment of these variables.
pub(crate) fn env<const N: usize>(
    variables: [(&'static str, &str); N],
) -> impl Fn(&str) -> Option<String> + Send + Sync + 'static {
    let variables = variables.map(|(name, value)| (name, value.to_owned()));
    move |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
}

pub(crate) fn subscribe(telemetry: &Telemetry) -> DefaultGuard {
    // With a single subscriber alive, a call site first reached on a thread without one would stay silent for all.
    static ALWAYS: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Registry::default()));
    LazyLock::force(&ALWAYS);
    tracing::subscriber::set_default(Registry::default().with(telemetry.layer()))
}

pub(crate) fn script(turns: impl IntoIterator<Item = Turn>) -> ScriptedModel {
    turns.into_iter().fold(ScriptedModel::new(), ScriptedModel::turn)
}

/// Arguments of test tools: any one text.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Say {
    #[serde(default)]
    pub(crate) text: String,
}

/// An agent with a tool that says it again, and one that never works.
pub(crate) fn agent(name: &str, model: &ScriptedModel) -> AgentBuilder {
    Agent::builder(name, model.clone()).tool(echo()).tool(broken())
}

fn echo() -> FnTool {
    tool_fn("echo", "Says it again", |_cx, args: Say| async move {
        Ok::<_, ToolError>(format!("echo: {}", args.text))
    })
    .unwrap()
}

fn broken() -> FnTool {
    tool_fn("broken", "Never works", |_cx, _args: Say| async move {
        Err::<String, _>(ToolError::failed("it broke"))
    })
    .unwrap()
}
