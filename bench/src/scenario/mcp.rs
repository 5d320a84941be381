//! Cost of a pooled MCP call against a raw `rmcp` call to the same server. The server is this program itself.

use std::io::{BufRead, Write};
use std::process::Stdio;
use std::time::Instant;

use provost_core::Env;
use provost_mcp::{McpPool, McpServer};
use provost_tool::{Deps, Guard, RunContext, State, Toolset};
use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use serde_json::{Value, json};

use crate::measure::Pairs;
use crate::scenario::guard::call_with;
use crate::table::{Table, Unit};
use crate::{Plan, Result};

/// Starts this program as the server.
pub(crate) const COMMAND: &str = "mcp-server";
/// Calls of each kind before the measurement.
const WARM_UP: usize = 50;
/// Limit of the cost of pool, guard and limits.
const EXCESS_SECONDS_MAX: f64 = 100e-6;

/// Measures both sides alternately, so that both see the same state of the machine.
pub(crate) fn measure(plan: Plan, table: &mut Table) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let pairs = runtime.block_on(both(plan.pick(3000, 300)))?;
    table.excess_at_most("a pooled MCP call", Unit::Time, &pairs, EXCESS_SECONDS_MAX);
    Ok(())
}

/// Minimal server with one tool that returns its input.
pub(crate) fn serve() -> Result<()> {
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let Some(id) = request.get("id") else { continue };
        let result = match request["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "repeat", "version": "1" },
            }),
            Some("tools/list") => json!({ "tools": [{
                "name": "repeat",
                "inputSchema": { "type": "object", "properties": { "words": { "type": "string" } } },
            }] }),
            Some("tools/call") => {
                let words = &request["params"]["arguments"]["words"];
                json!({ "content": [{ "type": "text", "text": words }] })
            }
            _ => {
                let error = json!({ "code": -32601, "message": "unknown method" });
                writeln!(out, "{}", json!({ "jsonrpc": "2.0", "id": id, "error": error }))?;
                out.flush()?;
                continue;
            }
        };
        writeln!(out, "{}", json!({ "jsonrpc": "2.0", "id": id, "result": result }))?;
        out.flush()?;
    }
    Ok(())
}

async fn both(calls: usize) -> Result<Pairs> {
    let program = std::env::current_exe()?;
    let program = program.to_str().ok_or("the program's path is no text")?;

    let mut command = tokio::process::Command::new(program);
    command.arg(COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let (Some(output), Some(input)) = (child.stdout.take(), child.stdin.take()) else {
        return Err("the server has no pipes".into());
    };
    let raw = ().serve((output, input)).await?;

    let pool = McpPool::new();
    let tools = pool.toolset(McpServer::stdio("bench", program).arg(COMMAND))?;
    let cx = RunContext {
        run_id: Env::system().id(),
        agent: "bench".into(),
        turn: 1,
        task_id: None,
        session: None,
        deps: Deps::default(),
        state: State::default(),
    };
    let tool = tools.tools(&cx).await.map_err(|error| error.to_string())?.remove(0);

    let arguments = json!({ "words": "so it goes" });
    let (guard, mut pairs) = (Guard::default(), Pairs::default());
    // Alternating, so that both sides see the same state of the machine.
    for at in 0..calls + WARM_UP {
        let start = Instant::now();
        let params = CallToolRequestParams::new("repeat")
            .with_arguments(arguments.as_object().cloned().unwrap_or_default());
        raw.call_tool(params).await?;
        let raw_took = start.elapsed();
        let start = Instant::now();
        call_with(&guard, &tool, &arguments).await?;
        let pooled_took = start.elapsed();
        if at >= WARM_UP {
            pairs.push(pooled_took.as_secs_f64(), raw_took.as_secs_f64());
        }
    }
    pool.close().await;
    raw.cancel().await?;
    Ok(pairs)
}
