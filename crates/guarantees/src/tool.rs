//! Tools whose effects are counted by the ledger: one for each effect class, and some with a twist.

use std::process::Stdio;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::recovery::{EffectClass, EffectKey};
use provost_core::{Document, Env, InputId};
use provost_engine::TransactionalEffects;
use provost_store::Tx;
use provost_store::table::governance::idempotency::IdemRow;
use provost_tool::{
    Approval, FnTool, Permit, Probe, SpecError, Tool, ToolCx, ToolError, ToolFuture, ToolOutput,
    ToolSpec,
};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::ledger::Ledger;

/// Bytes of what `big` gives back.
const BIG_BYTES: usize = 5 * 1024 * 1024;

/// A tool that does something at the ledger.
struct LedgerTool {
    spec: ToolSpec,
    path: &'static str,
    ledger: Ledger,
}

impl Tool for LedgerTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, permit: Permit, cx: ToolCx) -> ToolFuture {
        let (ledger, path) = (self.ledger.clone(), self.path);
        async move { Ok(ToolOutput::json(&act(&ledger, path, permit.arguments(), &cx).await?)) }
            .boxed()
    }

    fn probe(&self, key: EffectKey, _arguments: Value) -> BoxFuture<'static, Probe> {
        let ledger = self.ledger.clone();
        async move {
            match ledger.get(&format!("/probe/{key}")).await {
                Ok(answer) if answer["state"] == "done" => {
                    Probe::Done(ToolOutput::json(&answer["result"]))
                }
                Ok(answer) if answer["state"] == "not_done" => Probe::NotDone,
                _ => Probe::Unsure,
            }
        }
        .boxed()
    }
}

async fn act(
    ledger: &Ledger,
    path: &str,
    arguments: &Value,
    cx: &ToolCx,
) -> Result<Value, ToolError> {
    let body = json!({"key": arguments["key"], "tool": cx.tool(), "arguments": arguments});
    let done = ledger.post(path, &cx.effect_key().to_string(), &body).await;
    done.map_err(|error| ToolError::Failed(error.to_string()))
}

/// All tools of an agent.
pub(crate) fn all(ledger: &Ledger) -> Result<Vec<Box<dyn Tool>>, SpecError> {
    let class = |name, path, class| ledger_tool(ledger, name, path, class);
    Ok(vec![
        Box::new(class("pure", "/pure", EffectClass::Pure)?),
        Box::new(class("idempotent", "/idempotent", EffectClass::Idempotent)?),
        Box::new(class("keyed", "/keyed", EffectClass::Keyed)?),
        Box::new(class("provable", "/provable", EffectClass::Provable)?),
        Box::new(class("opaque", "/opaque", EffectClass::Opaque)?),
        Box::new(asking(ledger)?),
        Box::new(big(ledger)?),
        Box::new(process(ledger)?),
        Box::new(transactional()?),
    ])
}

fn spec(name: &str) -> Result<ToolSpec, SpecError> {
    let schema = json!({
        "type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"],
    });
    ToolSpec::new(name, "Does the thing of this key", schema)
}

fn ledger_tool(
    ledger: &Ledger,
    name: &str,
    path: &'static str,
    class: EffectClass,
) -> Result<LedgerTool, SpecError> {
    Ok(LedgerTool { spec: spec(name)?.effect(class), path, ledger: ledger.clone() })
}

/// Asks a person before it does anything.
fn asking(ledger: &Ledger) -> Result<LedgerTool, SpecError> {
    let tool = ledger_tool(ledger, "ask", "/opaque", EffectClass::Opaque)?;
    Ok(LedgerTool { spec: tool.spec.approval(Approval::Always), ..tool })
}

/// Adds a row to the engine's own database.
fn transactional() -> Result<FnTool, SpecError> {
    let spec = spec("transactional")?.effect(EffectClass::Transactional);
    Ok(FnTool::new(spec, move |permit, cx| {
        async move {
            let transactional = cx.dep::<TransactionalEffects>()?;
            let request_hash = permit.arguments()["key"].to_string();
            let insert = move |tx: &mut Tx<'_>| {
                let row = IdemRow {
                    namespace: "default".to_owned(),
                    scope: "effect".to_owned(),
                    // A second time is a second row.
                    idem_key: Env::system().id::<InputId>().to_string(),
                    request_hash: request_hash.clone(),
                    result: String::new(),
                    created: tx.now(),
                    expires: None,
                    task_id: None,
                };
                Ok(row.insert(tx)?)
            };
            transactional.commit(cx.effect_key(), insert).await?;
            Ok(ToolOutput::text("a row"))
        }
        .boxed()
    }))
}

/// Gives back more than a row holds.
fn big(ledger: &Ledger) -> Result<FnTool, SpecError> {
    let ledger = ledger.clone();
    Ok(FnTool::new(spec("big")?.effect(EffectClass::Keyed), move |permit, cx| {
        let ledger = ledger.clone();
        async move {
            let key = cx.effect_key().to_string();
            act(&ledger, "/keyed", permit.arguments(), &cx).await?;
            // Bytes that do not compress, and that a repeat makes again.
            let seed = key
                .bytes()
                .fold(1u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
            let bytes: Vec<u8> = (0..BIG_BYTES as u64).map(|n| noise(seed ^ n)).collect();
            Ok(ToolOutput::file(Document::bytes("big.bin", "application/octet-stream", bytes)))
        }
        .boxed()
    }))
}

fn noise(state: u64) -> u8 {
    let mixed = state.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_be_bytes()[0]
}

/// Starts a process that starts another one, and waits for both; both end with the call.
fn process(ledger: &Ledger) -> Result<FnTool, SpecError> {
    let ledger = ledger.clone();
    Ok(FnTool::new(spec("process")?, move |permit, cx| {
        let ledger = ledger.clone();
        async move {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", "sleep 1000 & wait"]).stdin(Stdio::null()).stdout(Stdio::null());
            let mut group = Group::start(command).map_err(|error| ToolError::Failed(error.to_string()))?;
            // Whoever hears of the effect can look for the process.
            let key = json!({"key": format!("{}={}", permit.arguments()["key"].as_str().unwrap_or_default(), group.id)});
            act(&ledger, "/opaque", &key, &cx).await?;
            let ended = group.leader.wait().await;
            Ok(ToolOutput::text(format!("{ended:?}")))
        }
        .boxed()
    }))
}

/// A process group that ends when this is dropped.
struct Group {
    leader: tokio::process::Child,
    id: u32,
}

impl Group {
    fn start(mut command: Command) -> std::io::Result<Self> {
        let leader = command.process_group(0).kill_on_drop(true).spawn()?;
        let id = leader.id().unwrap_or_default();
        Ok(Self { leader, id })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let group = i32::try_from(self.id).ok().and_then(rustix::process::Pid::from_raw);
        // It may have ended by itself.
        let _gone = group.is_some_and(|group| {
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).is_err()
        });
    }
}
