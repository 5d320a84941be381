//! Agent of the tests: a model over HTTP and tools of the effect server.

use std::sync::Arc;

use provost_agent::Agent;
use provost_agent::context::{ContextConfig, Summarize};
use provost_core::Limits;
use provost_engine::{AgentRevision, EngineError, Lease, child_tools};
use provost_model::RetryPolicy;
use provost_provider::{HttpModel, openai_compatible};
use serde_json::Value;

use crate::effect_server::EffectServerClient;
use crate::governed::GovernedTools;
use crate::tool;

/// Returns the agent factory. Beside the model, the configuration of an agent can contain `parallel_tools` (maximum
/// number of concurrent calls) and `context_tokens` (size of the context, to force a compaction).
pub(crate) fn agents(
    model_url: &str,
    effect_server_url: &str,
    governed: Option<GovernedTools>,
) -> impl Fn(&AgentRevision, &Lease) -> Result<Agent, EngineError> + Send + Sync + 'static {
    let (model, effect_server) =
        (model(model_url).map(Arc::new), EffectServerClient::at(effect_server_url));
    move |profile, _lease| {
        let refused = |problem: String| EngineError::Agent { agent: profile.name.clone(), problem };
        let number = |name: &str| profile.config.extensions.get(name).and_then(Value::as_u64);
        let model = model.clone().map_err(refused)?;
        let mut builder =
            Agent::builder(&profile.name, Arc::clone(&model)).limits(Limits::unlimited());
        builder = match &governed {
            Some(governed) => governed.add_tools(builder),
            None => {
                let tools =
                    tool::all(&effect_server).map_err(|error| refused(error.to_string()))?;
                builder.tools(tools.into_iter().map(Arc::from))
            }
        };
        builder = builder.tools(child_tools()?);
        if let Some(parallel) = number("parallel_tools") {
            builder = builder.max_parallel_tools(usize::try_from(parallel).unwrap_or(1));
        }
        if let Some(tokens) = number("context_tokens") {
            let strategy = Summarize::new(model).keep_recent(2);
            let context = ContextConfig::new(strategy).max_tokens(tokens).reserve(0);
            builder = builder.context(context);
        }
        builder.build().map_err(|error| refused(error.to_string()))
    }
}

fn model(url: &str) -> Result<HttpModel, String> {
    let model = openai_compatible("fake", url, "fake-1").retry(RetryPolicy::never()).build();
    model.map_err(|error| error.to_string())
}
