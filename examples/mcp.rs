//! MCP: an agent uses the tools of an MCP server. The server is this program, started as a child process.

use std::io::{BufRead, Write};

use provost::Agent;
use provost::testing::ScriptedModel;
use provost_mcp::{McpPool, McpServer};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return serve();
    }
    let model = ScriptedModel::new()
        .tool_calls([
            // The model sees the tools as `<server>_<tool>`.
            ("pantry_count", json!({ "article": "pear" })),
            ("pantry_count", json!({ "article": "unicorn" })),
        ])
        .text("There are 12 pears and no unicorns.");

    // The pool opens one connection per server definition. All agents and runs share it.
    let pool = McpPool::new();
    let program = std::env::current_exe()?.display().to_string();
    let pantry = pool.toolset(McpServer::stdio("pantry", program).arg("serve"))?;

    let agent = Agent::builder("cook", model).toolset(pantry).build()?;
    let result = agent.run("What is in the pantry?").await?;
    for call in &result.tool_results {
        let state = if call.is_error { "failed" } else { "returned" };
        println!("{} {state}: {}", call.name, call.to_text());
    }
    println!("{}", result.output);
    assert_eq!(result.tool_calls, 2);

    // Stops the server and waits until its process has exited.
    pool.close().await;
    Ok(())
}

/// A server without a library: each line is a JSON-RPC message, and each request gets a response.
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
                "description": "Returns the stock of an article",
                "inputSchema": {
                    "type": "object",
                    "properties": { "article": { "type": "string" } },
                    "required": ["article"],
                },
            }] } }),
            Some("tools/call") => {
                let found = params["arguments"]["article"] == "pear";
                let text = if found { "12" } else { "there is no such article" };
                json!({ "result": {
                    "content": [{ "type": "text", "text": text }],
                    "isError": !found,
                } })
            }
            _ => json!({ "error": { "code": -32601, "message": "unknown method" } }),
        };
        let mut response = json!({ "jsonrpc": "2.0", "id": id });
        if let (Some(fields), Value::Object(outcome)) = (response.as_object_mut(), outcome) {
            fields.extend(outcome);
        }
        let mut out = std::io::stdout();
        writeln!(out, "{response}")?;
        out.flush()?;
    }
    Ok(())
}
