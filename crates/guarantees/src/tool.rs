//! Tools whose effects the effect server counts: one for each effect class, and some special ones.

use std::process::Stdio;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::recovery::{EffectClass, EffectKey};
use provost_core::{Document, Env, InputId};
use provost_engine::TransactionalEffects;
use provost_store::Tx;
use provost_store::table::governance::idempotency::IdempotencyRow;
use provost_tool::{
    FnTool, Permit, ProbeOutcome, RequiresApproval, Tool, ToolContext, ToolError, ToolFuture,
    ToolOutput, ToolSpec, ToolSpecError,
};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::effect_server::EffectServerClient;

/// Size of the output of `big`.
const BIG_BYTES: usize = 5 * 1024 * 1024;

/// Tool that requests an effect from the effect server.
struct EffectServerTool {
    spec: ToolSpec,
    path: &'static str,
    effect_server: EffectServerClient,
}

impl Tool for EffectServerTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, permit: Permit, cx: ToolContext) -> ToolFuture {
        let (effect_server, path) = (self.effect_server.clone(), self.path);
        async move {
            Ok(ToolOutput::json(
                &request_effect(&effect_server, path, permit.arguments(), &cx).await?,
            ))
        }
        .boxed()
    }

    fn probe(&self, key: EffectKey, _arguments: Value) -> BoxFuture<'static, ProbeOutcome> {
        let effect_server = self.effect_server.clone();
        async move {
            match effect_server.get(&format!("/probe/{key}")).await {
                Ok(answer) if answer["state"] == "done" => {
                    ProbeOutcome::Completed(ToolOutput::json(&answer["result"]))
                }
                Ok(answer) if answer["state"] == "not_done" => ProbeOutcome::NotExecuted,
                _ => ProbeOutcome::Unknown,
            }
        }
        .boxed()
    }
}

async fn request_effect(
    effect_server: &EffectServerClient,
    path: &str,
    arguments: &Value,
    cx: &ToolContext,
) -> Result<Value, ToolError> {
    let body = json!({"key": arguments["key"], "tool": cx.tool(), "arguments": arguments});
    let done = effect_server.post(path, &cx.effect_key().to_string(), &body).await;
    done.map_err(|error| ToolError::Failed(error.to_string()))
}

/// Returns all tools of an agent.
pub(crate) fn all(effect_server: &EffectServerClient) -> Result<Vec<Box<dyn Tool>>, ToolSpecError> {
    let class = |name, path, class| effect_server_tool(effect_server, name, path, class);
    Ok(vec![
        Box::new(class("pure", "/pure", EffectClass::Pure)?),
        Box::new(class("idempotent", "/idempotent", EffectClass::Idempotent)?),
        Box::new(class("keyed", "/keyed", EffectClass::Keyed)?),
        Box::new(class("provable", "/provable", EffectClass::Provable)?),
        Box::new(class("opaque", "/opaque", EffectClass::Opaque)?),
        Box::new(approval_tool(effect_server)?),
        Box::new(big(effect_server)?),
        Box::new(process(effect_server)?),
        Box::new(transactional()?),
    ])
}

fn spec(name: &str) -> Result<ToolSpec, ToolSpecError> {
    let schema = json!({
        "type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"],
    });
    ToolSpec::new(name, "Does the thing of this key", schema)
}

fn effect_server_tool(
    effect_server: &EffectServerClient,
    name: &str,
    path: &'static str,
    class: EffectClass,
) -> Result<EffectServerTool, ToolSpecError> {
    Ok(EffectServerTool {
        spec: spec(name)?.effect(class),
        path,
        effect_server: effect_server.clone(),
    })
}

/// Returns a tool that requires approval.
fn approval_tool(effect_server: &EffectServerClient) -> Result<EffectServerTool, ToolSpecError> {
    let tool = effect_server_tool(effect_server, "ask", "/opaque", EffectClass::Opaque)?;
    Ok(EffectServerTool { spec: tool.spec.approval(RequiresApproval::Always), ..tool })
}

/// Returns a tool that adds a row to the engine's database.
fn transactional() -> Result<FnTool, ToolSpecError> {
    let spec = spec("transactional")?.effect(EffectClass::Transactional);
    Ok(FnTool::new(spec, move |permit, cx| {
        async move {
            let transactional = cx.dep::<TransactionalEffects>()?;
            let request_hash = permit.arguments()["key"].to_string();
            let insert = move |tx: &mut Tx<'_>| {
                let row = IdempotencyRow {
                    namespace: "default".to_owned(),
                    scope: "effect".to_owned(),
                    // A repeated call adds a second row.
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

/// Returns a tool whose output is too large for one row.
fn big(effect_server: &EffectServerClient) -> Result<FnTool, ToolSpecError> {
    let effect_server = effect_server.clone();
    Ok(FnTool::new(spec("big")?.effect(EffectClass::Keyed), move |permit, cx| {
        let effect_server = effect_server.clone();
        async move {
            let key = cx.effect_key().to_string();
            request_effect(&effect_server, "/keyed", permit.arguments(), &cx).await?;
            // Incompressible bytes that a repeated call produces again.
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

/// Returns a tool that starts a process with a child process and waits for both. Both end with the call.
fn process(effect_server: &EffectServerClient) -> Result<FnTool, ToolSpecError> {
    let effect_server = effect_server.clone();
    Ok(FnTool::new(spec("process")?, move |permit, cx| {
        let effect_server = effect_server.clone();
        async move {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", "sleep 1000 & wait"]).stdin(Stdio::null()).stdout(Stdio::null());
            let mut group = Group::start(command).map_err(|error| ToolError::Failed(error.to_string()))?;
            // The test finds the process through the recorded effect.
            let key = json!({"key": format!("{}={}", permit.arguments()["key"].as_str().unwrap_or_default(), group.id)});
            request_effect(&effect_server, "/opaque", &key, &cx).await?;
            let ended = group.leader.wait().await;
            Ok(ToolOutput::text(format!("{ended:?}")))
        }
        .boxed()
    }))
}

/// Process group that is killed on drop.
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
        // The group may have ended before.
        let _gone = group.is_some_and(|group| {
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).is_err()
        });
    }
}
