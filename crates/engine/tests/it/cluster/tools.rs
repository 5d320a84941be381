//! The agents of a house, and what their tools do.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use provost_agent::Agent;
use provost_core::recovery::EffectClass;
use provost_engine::{AgentRevision, EngineError, Lease, ask_user};
use provost_model::ScriptedModel;
use provost_tool::{FnTool, RequiresApproval, ToolContext, ToolError, ToolOutput, ToolSpec};
use serde_json::json;

use super::{Answer, NEVER, Rooms};

/// A price that makes each model call cost something.
fn priced(model: ScriptedModel) -> ScriptedModel {
    model.with_info(|info| {
        info.pricing = serde_json::from_value(json!({"input": "1", "output": "1"})).unwrap();
        info.max_output = Some(1_000);
    })
}

/// Agents with a tool of each effect class (`pure`, …), one that waits at a gate for each (`gate_pure`, …), one that needs an
/// approval (`risky`), one that asks while it runs (`careful`), and one that asks in words.
pub(super) fn agents(
    rooms: Arc<Rooms>,
    answer: Arc<Answer>,
) -> impl Fn(&AgentRevision, &Lease) -> Result<Agent, EngineError> + Send + Sync + 'static {
    move |revision, _| {
        if rooms.broken.load(Ordering::SeqCst) {
            let (agent, problem) = (revision.name.clone(), "its place is gone".to_owned());
            return Err(EngineError::Agent { agent, problem });
        }
        let (answer, is_recorded) = (Arc::clone(&answer), Arc::clone(&rooms));
        let model = ScriptedModel::from_fn(move |request, call| {
            is_recorded.model_calls.fetch_add(1, Ordering::SeqCst);
            answer(request, call)
        });
        let door = Arc::clone(&rooms);
        let mut builder = Agent::builder("default", priced(model)).instructions_from(move |_| {
            let door = Arc::clone(&door);
            async move {
                if door.door_closed.load(Ordering::SeqCst) {
                    door.door.pass().await;
                }
                Ok(String::new())
            }
        });
        for class in EffectClass::ALL {
            builder = builder.tool(plain(class.as_str(), *class, &rooms));
            builder = builder.tool(gated(*class, &rooms));
        }
        builder = builder.tool(
            plain("risky", EffectClass::Opaque, &rooms)
                .with_spec(|spec| spec.approval(RequiresApproval::Always)),
        );
        builder = builder.tool(careful(&rooms)).tool(ask_user().unwrap());
        Ok(builder.build().unwrap())
    }
}

fn spec(name: &str, class: EffectClass) -> ToolSpec {
    ToolSpec::new(name, "A tool", json!({"type": "object"})).unwrap().effect(class)
}

fn plain(name: &str, class: EffectClass, rooms: &Arc<Rooms>) -> FnTool {
    let (name, rooms) = (name.to_owned(), Arc::clone(rooms));
    FnTool::new(spec(&name, class), move |_permit, _cx: ToolContext| {
        let (name, rooms) = (name.clone(), Arc::clone(&rooms));
        Box::pin(async move {
            rooms.called(&name);
            Ok::<_, ToolError>(ToolOutput::text(format!("{name} did it")))
        })
    })
}

fn gated(class: EffectClass, rooms: &Arc<Rooms>) -> FnTool {
    let (name, rooms) = (format!("gate_{class}"), Arc::clone(rooms));
    FnTool::new(spec(&name, class).timeout(NEVER), move |_permit, _cx: ToolContext| {
        let (name, rooms) = (name.clone(), Arc::clone(&rooms));
        Box::pin(async move {
            rooms.called(&name);
            rooms.gate(&name).pass().await;
            Ok::<_, ToolError>(ToolOutput::text(format!("{name} did it")))
        })
    })
}

fn careful(rooms: &Arc<Rooms>) -> FnTool {
    let rooms = Arc::clone(rooms);
    FnTool::new(spec("careful", EffectClass::Opaque), move |_permit, cx: ToolContext| {
        let rooms = Arc::clone(&rooms);
        Box::pin(async move {
            cx.confirm("really?").await?;
            rooms.called("careful");
            Ok::<_, ToolError>(ToolOutput::text("careful did it"))
        })
    })
}
