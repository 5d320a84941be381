//! MCP: an agent uses the tools of a server that is a program of its own. Here the program is this one, started again.

use std::io::{BufRead, Write};

use provost::Agent;
use provost::testing::{ScriptedModel, calls, text};
use provost_mcp::{McpPool, McpServer};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return serve();
    }
    let model = ScriptedModel::new()
        .turn(calls([
            // The model sees the tools as `<server>_<tool>`.
            ("pantry_count", json!({ "article": "pear" })),
            ("pantry_count", json!({ "article": "unicorn" })),
        ]))
        .turn(text("There are 12 pears and no unicorns."));

    // One connection for each definition, shared by all agents and runs of the program.
    let pool = McpPool::new();
    let program = std::env::current_exe()?.display().to_string();
    let pantry = pool.toolset(McpServer::stdio("pantry", program).arg("serve"))?;

    let agent = Agent::builder("cook", model).toolset(pantry).build()?;
    let result = agent.run("What is in the pantry?").await?;
    for call in &result.tool_results {
        let state = if call.is_error { "failed" } else { "said" };
        println!("{} {state}: {}", call.name, call.to_text());
    }
    println!("{}", result.output);
    assert_eq!(result.tool_calls, 2);

    // Ends the server and waits until it is gone.
    pool.close().await;
    Ok(())
}

/// A server without a library: each line is a message, each request gets an answer.
fn serve() -> Result<(), Box<dyn std::error::Error>> {
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let Some(id) = request.get("id") else { continue };
        let params = &request["params"];
        let outcome = match request["method"].as_str() {
            Some("initialize") => json!({ "result": {
                "protocolVersion": params["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "pantry", "version": "1.0.0" },
            } }),
            Some("tools/list") => json!({ "result": { "tools": [{
                "name": "count",
                "description": "Counts what is left of an article",
                "inputSchema": {
                    "type": "object",
                    "properties": { "article": { "type": "string" } },
                    "required": ["article"],
                },
            }] } }),
            Some("tools/call") => {
                let found = params["arguments"]["article"] == "pear";
                let words = if found { "12" } else { "there is no such article" };
                json!({ "result": {
                    "content": [{ "type": "text", "text": words }],
                    "isError": !found,
                } })
            }
            _ => json!({ "error": { "code": -32601, "message": "unknown method" } }),
        };
        let mut answer = json!({ "jsonrpc": "2.0", "id": id });
        if let (Some(answer), Value::Object(outcome)) = (answer.as_object_mut(), outcome) {
            answer.extend(outcome);
        }
        let mut out = std::io::stdout();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}
