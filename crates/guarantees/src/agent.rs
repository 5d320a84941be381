//! The agent of the tests: a model over HTTP and tools at the ledger.

use std::sync::Arc;

use provost_agent::Agent;
use provost_agent::context::Summarize;
use provost_core::Limits;
use provost_engine::{AgentProfile, EngineError, Lease, child_tools};
use provost_model::RetryPolicy;
use provost_provider::{HttpModel, openai_compatible};
use serde_json::Value;

use crate::governed::Governed;
use crate::ledger::Ledger;
use crate::tool;

/// Makes agents. What their configuration says beside the model:
/// `parallel_tools` (how many at once), `context_tokens` (a window so small that it must be summarised).
pub(crate) fn agents(
    model_url: &str,
    ledger_url: &str,
    governed: Option<Governed>,
) -> impl Fn(&AgentProfile, &Lease) -> Result<Agent, EngineError> + Send + Sync + 'static {
    let (model, ledger) = (model(model_url).map(Arc::new), Ledger::at(ledger_url));
    move |profile, _lease| {
        let refused = |problem: String| EngineError::Agent { agent: profile.name.clone(), problem };
        let number = |name: &str| profile.config.more.get(name).and_then(Value::as_u64);
        let model = model.clone().map_err(refused)?;
        let mut builder =
            Agent::builder(&profile.name, Arc::clone(&model)).limits(Limits::unlimited());
        builder = match &governed {
            Some(governed) => governed.outfit(builder),
            None => {
                let tools = tool::all(&ledger).map_err(|error| refused(error.to_string()))?;
                builder.tools(tools.into_iter().map(Arc::from))
            }
        };
        builder = builder.tools(child_tools()?);
        if let Some(parallel) = number("parallel_tools") {
            builder = builder.parallel_tools(usize::try_from(parallel).unwrap_or(1));
        }
        if let Some(tokens) = number("context_tokens") {
            let strategy = Summarize::new(model).keep_recent(2);
            builder = builder.context(strategy).context_tokens(tokens).context_reserve(0);
        }
        builder.build().map_err(|error| refused(error.to_string()))
    }
}

fn model(url: &str) -> Result<HttpModel, String> {
    let model = openai_compatible("fake", url, "fake-1").retry(RetryPolicy::never()).build();
    model.map_err(|error| error.to_string())
}
