//! Approval across two processes.
//!
//! `approval ask state.json` starts a run that is suspended at a tool call, stores it in a file and exits.
//! `approval approve state.json` (or `deny`) is a second process: it decides the approval and finishes the run.
//! Without arguments, the program starts both processes one after the other.
//!
//! The tool appends a line to `state.json.log` each time it runs: exactly one line after an approval.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use provost::testing::ScriptedModel;
use provost::{Agent, ApprovalMode, Dep, RunOutcome, SuspendedRun, ToolError, tool};
use serde_json::json;

struct Log(PathBuf);

/// Deletes a customer permanently.
#[tool(approval = "always")]
async fn delete_customer(
    log: Dep<Log>,
    /// Customer number
    id: u64,
) -> Result<String, ToolError> {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&log.0)?;
    writeln!(file, "deleted {id}")?;
    Ok(format!("customer {id} is deleted"))
}

/// Builds the same agent in both processes. Only the remaining script differs.
fn agent(model: ScriptedModel) -> Result<Agent, Box<dyn std::error::Error>> {
    Ok(Agent::builder("clerk", model).tool(delete_customer).build()?)
}

async fn ask(state: &Path, log: Log) -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new().tool_call("delete_customer", json!({ "id": 9 }));
    let run = agent(model)?.run("Delete customer 9").dep(log).approvals(ApprovalMode::Suspend);
    match run.outcome().await? {
        RunOutcome::Suspended(suspended) => {
            for request in suspended.approvals() {
                println!("approval required: {} {}", request.call.name, request.call.arguments);
            }
            std::fs::write(state, suspended.to_bytes()?)?;
        }
        other => println!("no approval was required: {other:?}"),
    }
    Ok(())
}

async fn decide(state: &Path, log: Log, approve: bool) -> Result<(), Box<dyn std::error::Error>> {
    let suspended = SuspendedRun::from_bytes(&std::fs::read(state)?)?;
    let decided = if approve { suspended.approve_all() } else { suspended.reject_all("not today") };
    let model = ScriptedModel::new().text("The customer's case is closed.");
    let result = agent(model)?.resume(decided).dep(log).await?;
    for tool_result in &result.tool_results {
        println!("tool result: {}", tool_result.to_text());
    }
    println!("{}", result.output);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [command, file] => {
            let (state, log) = (Path::new(file), Log(PathBuf::from(format!("{file}.log"))));
            match command {
                "ask" => ask(state, log).await,
                "approve" => decide(state, log, true).await,
                "deny" => decide(state, log, false).await,
                _ => Err(format!("unknown command `{command}`: use ask, approve or deny").into()),
            }
        }
        [] => {
            let directory =
                std::env::temp_dir().join(format!("provost-approval-{}", std::process::id()));
            std::fs::create_dir_all(&directory)?;
            let file = directory.join("state.json");
            for command in ["ask", "approve"] {
                println!("$ approval {command} state.json");
                let status =
                    Command::new(std::env::current_exe()?).arg(command).arg(&file).status()?;
                assert!(status.success());
            }
            let log = std::fs::read_to_string(directory.join("state.json.log"))?;
            assert_eq!(log, "deleted 9\n", "the tool ran exactly once");
            Ok(std::fs::remove_dir_all(directory)?)
        }
        _ => Err("usage: approval [ask|approve|deny FILE]".into()),
    }
}
