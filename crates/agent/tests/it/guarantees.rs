//! Promises that hold also where something goes wrong: what hangs, fails, panics, is cut off or is not told.

mod calls;
mod contexts;
mod endings;
mod hanging;
mod ids;
mod money;
mod panics;
mod sessions;

use std::sync::Arc;

use provost_core::{Event, EventKind, Message, Pricing};
use provost_model::ScriptedModel;

/// The warnings of a run.
fn warnings(events: &[Event]) -> Vec<&str> {
    let warning = |event| match event {
        &Event { kind: EventKind::Warning { ref message }, .. } => Some(message.as_str()),
        _ => None,
    };
    events.iter().filter_map(warning).collect()
}

/// Prices a model at a dollar for a thousand tokens, in and out.
fn priced(model: ScriptedModel) -> ScriptedModel {
    let pricing = Pricing {
        input: 1000.into(),
        output: 1000.into(),
        cache_read: None,
        cache_write: None,
        reasoning: None,
        currency: provost_core::Currency::USD,
    };
    model.with_info(|info| info.pricing = Some(pricing))
}

/// A conversation of about five thousand tokens.
fn long_history() -> Vec<Arc<Message>> {
    let exchange = |number| {
        let question = format!("{number} {}", "word ".repeat(200));
        [Message::user(question), Message::assistant(format!("ok {number}"))]
    };
    (0..20).flat_map(exchange).map(Arc::new).collect()
}
