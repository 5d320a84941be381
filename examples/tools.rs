//! Tools: from a function, from a block with shared state, from a closure; values of the program; progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use provost::testing::{ScriptedModel, calls, text};
use provost::{Agent, Dep, ToolCx, ToolError, tool, tool_fn};
use serde_json::json;

/// What the program gives to its tools; the model never sees it.
struct Prices(Vec<(&'static str, f64)>);

/// Looks up the price of an article.
#[tool(timeout = "5s", retries = 2)]
async fn price_of(
    cx: &ToolCx,
    prices: Dep<Prices>,
    /// Name of the article
    article: String,
) -> Result<f64, ToolError> {
    cx.progress(format!("looking for {article}"));
    let found = prices.0.iter().find(|(name, _)| *name == article);
    // `retry` tells the model that other arguments may work.
    found
        .map(|(_, price)| *price)
        .ok_or_else(|| ToolError::retry(format!("no article `{article}`")))
}

/// A till that several calls share.
#[derive(Default)]
struct Till {
    cents: AtomicI64,
}

#[tool]
impl Till {
    /// Puts money into the till.
    async fn put(
        &self,
        /// Amount in cents
        cents: i64,
    ) -> String {
        let total = self.cents.fetch_add(cents, Ordering::Relaxed) + cents;
        format!("{total} cents in the till")
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Shout {
    /// What to say
    words: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shout = tool_fn("shout", "Says it loud", |_cx, args: Shout| async move {
        Ok::<_, ToolError>(args.words.to_uppercase())
    })?;
    let till = Arc::new(Till::default());
    let model = ScriptedModel::new()
        .turn(calls([
            ("price_of", json!({ "article": "pear" })),
            ("put", json!({ "cents": 250 })),
            ("shout", json!({ "words": "sold" })),
        ]))
        .turn(text("A pear is 2.5, and it is sold."));
    let agent = Agent::builder("shop", model)
        .instructions("You run a shop.")
        .tool(price_of)
        .tools(till.tools())
        .tool(shout)
        .build()?;
    let result = agent.run("Sell me a pear").dep(Prices(vec![("pear", 2.5)])).await?;
    for tool_result in &result.tool_results {
        println!("{:>8} -> {}", tool_result.name, tool_result.to_text());
    }
    println!("{} ({} turns, {} calls)", result.output, result.turns, result.tool_calls);
    assert_eq!(till.cents.load(Ordering::Relaxed), 250);
    Ok(())
}
