//! Commands of a node, and their output.

use std::error::Error;

use provost_core::ApprovalDecision;
use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_engine::{Engine, EngineDeps};
use provost_store::Store;
use serde_json::json;

use crate::governed::GovernedTools;
use crate::options::{Command, Options};
use crate::{agent, print_line, work};

/// Any error. It is only printed.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Opens the database and executes the command of the options.
pub(crate) async fn run(options: Options) -> Result<(), Failure> {
    let store = Store::open(options.store())?;
    let governed = match options.governed {
        true => Some(GovernedTools::open(&options.effect_server_url, &store).await?),
        false => None,
    };
    let guard = governed.as_ref().map(GovernedTools::guard_services).unwrap_or_default();
    let agents = agent::agents(&options.model_url, &options.effect_server_url, governed);
    let deps = EngineDeps::new(store.clone(), agents, guard, options.env());
    let engine = Engine::new(deps, options.engine());
    let namespace = Namespace::default();
    match options.command {
        Command::Work { drain_timeout_ms } => work::work(&engine, drain_timeout_ms).await?,
        Command::Accept { command } => {
            let command: TaskRequest = serde_json::from_str(&command)?;
            let accepted = engine.submit(&namespace, command).await?;
            let deduped = accepted.deduped;
            print_line(json!({"accepted": accepted, "deduped": deduped}));
        }
        Command::Cancel { run } => {
            let cancelled = engine.runs().cancel(&namespace, run.parse()?).await?;
            print_line(json!({ "cancelled": format!("{cancelled:?}") }));
        }
        Command::Answer { approval, decision } => {
            let decision = match decision.as_str() {
                "approve" => ApprovalDecision::Approve,
                reason => ApprovalDecision::Deny { reason: reason.to_owned() },
            };
            let id = approval.parse()?;
            let answered = engine.approvals().answer(&namespace, id, decision, "a test").await?;
            print_line(json!({"state": answered.state.as_str(), "counted": answered.is_recorded}));
        }
    }
    store.close().await;
    Ok(())
}
