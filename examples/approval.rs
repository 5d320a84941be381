//! Approval across two processes.
//!
//! `approval ask state.json` runs until a tool needs a person, stores the run in a file and exits.
//! `approval approve state.json` (or `deny`) is another process: it decides and finishes the run.
//! Without arguments it plays both parts one after the other.
//!
//! The tool writes a line to `state.json.log` each time it runs: exactly one after an approval.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use provost::testing::{ScriptedModel, call, text};
use provost::{Agent, ApprovalMode, Dep, RunOutcome, SuspendedRun, ToolError, tool};
use serde_json::json;

struct Log(PathBuf);

/// Deletes a customer for good.
#[tool(approval = "always")]
async fn delete_customer(
    log: Dep<Log>,
    /// Number of the customer
    id: u64,
) -> Result<String, ToolError> {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&log.0)?;
    writeln!(file, "deleted {id}")?;
    Ok(format!("customer {id} is deleted"))
}

/// The same definition in both processes; only the rest of the script differs.
fn agent(model: ScriptedModel) -> Result<Agent, Box<dyn std::error::Error>> {
    Ok(Agent::builder("clerk", model).tool(delete_customer).build()?)
}

async fn ask(state: &Path, log: Log) -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new().turn(call("delete_customer", json!({ "id": 9 })));
    let run = agent(model)?.run("Delete customer 9").dep(log).on_approval(ApprovalMode::Suspend);
    match run.outcome().await? {
        RunOutcome::Suspended(suspended) => {
            for request in suspended.approvals() {
                println!("waits for approval: {} {}", request.call.name, request.call.arguments);
            }
            std::fs::write(state, suspended.to_bytes()?)?;
        }
        other => println!("nothing to approve: {other:?}"),
    }
    Ok(())
}

async fn decide(state: &Path, log: Log, yes: bool) -> Result<(), Box<dyn std::error::Error>> {
    let suspended = SuspendedRun::from_bytes(&std::fs::read(state)?)?;
    let decided = if yes { suspended.approve_all() } else { suspended.deny_all("not today") };
    let model = ScriptedModel::new().turn(text("The customer's case is closed."));
    let result = agent(model)?.resume(decided).dep(log).await?;
    for tool_result in &result.tool_results {
        println!("tool said: {}", tool_result.to_text());
    }
    println!("{}", result.output);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let parts: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match parts[..] {
        [verb, file] => {
            let (state, log) = (Path::new(file), Log(PathBuf::from(format!("{file}.log"))));
            match verb {
                "ask" => ask(state, log).await,
                "approve" => decide(state, log, true).await,
                "deny" => decide(state, log, false).await,
                _ => Err(format!("unknown verb `{verb}`: use ask, approve or deny").into()),
            }
        }
        [] => {
            let folder =
                std::env::temp_dir().join(format!("provost-approval-{}", std::process::id()));
            std::fs::create_dir_all(&folder)?;
            let file = folder.join("state.json");
            for verb in ["ask", "approve"] {
                println!("$ approval {verb} state.json");
                let status =
                    Command::new(std::env::current_exe()?).arg(verb).arg(&file).status()?;
                assert!(status.success());
            }
            let log = std::fs::read_to_string(folder.join("state.json.log"))?;
            assert_eq!(log, "deleted 9\n", "the tool ran exactly once");
            Ok(std::fs::remove_dir_all(folder)?)
        }
        _ => Err("usage: approval [ask|approve|deny FILE]".into()),
    }
}
