//! Cost of a route against its model: selection, limits per minute and budget reservations, for one caller and for
//! 1,000.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use futures::stream;
use provost_core::{Currency, Message, Money, Pricing, StopReason, Usage};
use provost_model::{
    ChatModel, ChatRequest, Endpoint, InMemoryLedger, ModelEvent, ModelInfo, ModelStream,
    RateLimits, RoutedModel, complete,
};

use crate::measure::{local_runtime, median, time_each};
use crate::table::{Table, Unit};
use crate::{Plan, Result};

/// Concurrent callers.
const CALLERS: usize = 1000;
/// Limit of the cost of a route per call.
const ALONE_SECONDS_MAX: f64 = 10e-6;
/// Limit of the 99th percentile with 1,000 concurrent callers.
const CROWD_SECONDS_MAX: f64 = 100e-6;
/// A limit that the calls do not reach.
const UNREACHED_LIMIT: u64 = 1_000_000_000_000;

/// A model that responds at once.
struct InstantModel(ModelInfo);

impl InstantModel {
    fn new() -> Self {
        let mut info = ModelInfo::unknown("bench", "gpt-at-once");
        info.max_output = Some(100);
        info.pricing = Some(Pricing {
            input: 1.into(),
            output: 1.into(),
            cache_read: None,
            cache_write: None,
            reasoning: None,
            currency: Currency::USD,
        });
        Self(info)
    }
}

impl ChatModel for InstantModel {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream(&self, _request: ChatRequest) -> ModelStream {
        let events = [
            ModelEvent::Text("yes".to_owned()),
            ModelEvent::Usage(Usage::new(20, 1)),
            ModelEvent::Stop(StopReason::EndTurn),
        ];
        Box::pin(stream::iter(events.map(Ok)))
    }
}

/// Measures both cases.
pub(crate) fn measure(plan: Plan, table: &mut Table) -> Result<()> {
    let (batches, uses) = (plan.pick(15, 5), plan.pick(2000, 300));
    let runtime = local_runtime()?;
    let request = ChatRequest::new([Message::user("What is the capital of France?")]);
    let route = route()?;
    let bare = InstantModel::new();
    let ask = |model: &dyn ChatModel| {
        black_box(runtime.block_on(complete(model, request.clone()))?);
        Ok(())
    };
    let alone = time_each(batches, uses, || ask(&bare))?;
    let routed = time_each(batches, uses, || ask(&route))?;
    let what = "a route with limits and a budget, beside the bare model";
    table.at_most(what, Unit::Time, (routed - alone).max(0.0), ALONE_SECONDS_MAX);
    let p99 = (0..plan.pick(5, 2)).map(|_| crowd(&route, &request, plan.pick(50, 10)));
    let p99 = median(p99.collect::<Result<_>>()?);
    table.at_most("the same for 1,000 callers at once, p99", Unit::Time, p99, CROWD_SECONDS_MAX);
    Ok(())
}

fn route() -> Result<RoutedModel> {
    let limits = RateLimits {
        requests_per_minute: Some(UNREACHED_LIMIT),
        tokens_per_minute: Some(UNREACHED_LIMIT),
    };
    let endpoint = |name: &str| {
        Endpoint::new(name, InstantModel::new())
            .credential("second", InstantModel::new())
            .limits(limits)
    };
    let ledger = InMemoryLedger::new("all", Money::usd(1_000_000_000.into()));
    let route = RoutedModel::builder().endpoint(endpoint("first")).endpoint(endpoint("second"));
    Ok(route.budget(ledger).build()?)
}

/// Returns the 99th percentile of the call durations.
fn crowd(route: &RoutedModel, request: &ChatRequest, calls: usize) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (route, request) = (route.clone(), Arc::new(request.clone()));
    let mut took: Vec<f64> = runtime.block_on(async move {
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let (route, request) = (route.clone(), Arc::clone(&request));
                tokio::spawn(async move {
                    let mut took = Vec::with_capacity(calls);
                    for _ in 0..calls {
                        let start = Instant::now();
                        black_box(complete(&route, ChatRequest::clone(&request)).await?);
                        took.push(start.elapsed().as_secs_f64());
                        tokio::task::yield_now().await;
                    }
                    Ok::<_, provost_model::ModelError>(took)
                })
            })
            .collect();
        let mut all = Vec::with_capacity(CALLERS * calls);
        for caller in callers {
            all.extend(caller.await??);
        }
        Ok::<_, crate::Error>(all)
    })?;
    took.sort_by(f64::total_cmp);
    Ok(took.get(took.len() * 99 / 100).copied().unwrap_or_default())
}
