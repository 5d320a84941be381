//! Tools from a function, from an `impl` block with shared state and from a closure, with dependencies and progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use provost::testing::ScriptedModel;
use provost::{Agent, Dep, ToolContext, ToolError, tool, tool_fn};
use serde_json::json;

/// A dependency that the program passes to its tools. The model never sees it.
struct Prices(Vec<(&'static str, f64)>);

/// Looks up the price of an article.
#[tool(timeout = "5s", retries = 2)]
async fn price_of(
    cx: &ToolContext,
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

/// State that all calls of its tools share.
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
    /// The text
    text: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shout = tool_fn("shout", "Converts a text to upper case", |_cx, args: Shout| async move {
        Ok::<_, ToolError>(args.text.to_uppercase())
    })?;
    let till = Arc::new(Till::default());
    let model = ScriptedModel::new()
        .tool_calls([
            ("price_of", json!({ "article": "pear" })),
            ("put", json!({ "cents": 250 })),
            ("shout", json!({ "text": "sold" })),
        ])
        .text("A pear is 2.5, and it is sold.");
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
