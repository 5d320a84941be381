//! Declared tools, killed at every stage of a guarded call: the table of effect classes holds behind rules, credentials and
//! records as it does without them.

use provost_core::lifecycle::StepKind;
use provost_testkit::EffectKind;

use crate::harness::Harness;

/// The worker uses the declared tools.
const GOVERNED: [&str; 1] = ["--governed"];

/// Where a worker dies, in the order of a call.
const STAGES: [Dies; 7] = [
    Dies::At("tool.before_begin"),
    Dies::At("tool.begun"),
    Dies::InTheCall,
    Dies::At("tool.finished"),
    // The fifth write of this run is the one that records the result. Both places are within its transaction, so a worker that
    // dies there has recorded nothing: the call is one that nobody knows the outcome of.
    Dies::With("step.before=kill@5"),
    Dies::With("step.after=kill@5"),
    Dies::With(RECORDED),
];

/// The result is written down; the model that would be told of it is about to be asked.
const RECORDED: &str = "model.begun=kill@2";

#[derive(Clone, Copy)]
enum Dies {
    /// At a place.
    At(&'static str),
    /// By a rule.
    With(&'static str),
    /// After the effect and before the answer.
    InTheCall,
}

impl Dies {
    fn name(self) -> &'static str {
        match self {
            Self::At(place) | Self::With(place) => place,
            Self::InTheCall => "in the call",
        }
    }
}

/// Calls and effects that the ledger may have seen: a repeat of what is harmless, and never a second effect. A declared tool
/// has nothing that can prove what it did, so a provable one is treated as an opaque one.
fn allowed(class: &str, harness: Dies) -> (&'static [usize], u64) {
    let before = matches!(harness, Dies::At("tool.before_begin"));
    let unknown = matches!(harness, Dies::At("tool.begun"));
    let after = matches!(harness, Dies::With(RECORDED));
    let effects = u64::from(class != "pure");
    match class {
        // What was written down as begun is not made if nobody can tell whether it was.
        "provable" | "opaque" if unknown => (&[0], 0),
        "provable" | "opaque" => (&[1], 1),
        _ if before || unknown || after => (&[1], effects),
        _ => (&[2], effects),
    }
}

/// How far the journal has come with the call when the worker is dead: nothing, begun, or done with its result.
fn recorded(harness: Dies) -> Option<&'static str> {
    match harness {
        Dies::At("tool.before_begin") => None,
        Dies::With(RECORDED) => Some("committed"),
        _ => Some("started"),
    }
}

#[tokio::test]
async fn g15_declared_tools_killed_at_every_stage_have_one_effect() {
    let mut table = String::from("class       stage                calls effects\n");
    for class in ["pure", "idempotent", "keyed", "provable", "opaque"] {
        for dies in STAGES {
            let harness = Harness::new().await;
            let run = harness.say(&format!("do {class}:a; say done")).await;
            match dies {
                Dies::At(place) => {
                    harness.worker_dies_with(&GOVERNED, &format!("{place}=kill")).await;
                }
                Dies::With(rule) => harness.worker_dies_with(&GOVERNED, rule).await,
                Dies::InTheCall => {
                    harness.effect_server.pause_responses(path(class));
                    let worker = harness.worker_with(&GOVERNED, "").await;
                    harness.effect_server.wait_for_calls(1).await;
                    worker.kill().await.unwrap();
                    harness.effect_server.resume_responses();
                }
            }
            let steps = harness.steps(run).await;
            let step = steps.iter().find(|step| step.kind == StepKind::ToolCall);
            let state = step.map(|step| step.state.as_str());
            assert_eq!(state, recorded(dies), "{class} {}", dies.name());
            let _worker = harness.worker_with(&GOVERNED, "").await;
            assert_eq!(harness.answer(run).await, "done", "{class} {}", dies.name());
            let seen = (harness.effect_server.calls("a"), harness.effect_server.effects("a"));
            table.push_str(&format!("{class:11} {:20} {:5} {:7}\n", dies.name(), seen.0, seen.1));
            let (calls, effects) = allowed(class, dies);
            assert!(calls.contains(&seen.0) && seen.1 == effects, "{table}");
            let keys: Vec<_> =
                harness.effect_server.log().into_iter().map(|call| call.idempotency_key).collect();
            assert!(keys.windows(2).all(|pair| pair[0] == pair[1]), "one effect key: {keys:?}");
            let permitted = harness.rows("audit WHERE outcome = 'allowed'").await;
            assert!(permitted as usize >= seen.0, "no call without a record of its permit");
        }
    }
    println!("{table}");
}

#[tokio::test]
async fn g16_a_finished_call_of_a_declared_tool_is_not_made_again() {
    let harness = Harness::new().await;
    let run = harness.say("do opaque:a; say done").await;
    harness.worker_dies_with(&GOVERNED, "model.begun=kill@2").await;
    let _worker = harness.worker_with(&GOVERNED, "").await;
    assert_eq!(harness.answer(run).await, "done");
    assert_eq!((harness.effect_server.calls("a"), harness.effect_server.effects("a")), (1, 1));
}

fn path(class: &str) -> EffectKind {
    match class {
        "pure" => EffectKind::Pure,
        "idempotent" => EffectKind::Idempotent,
        "keyed" => EffectKind::Keyed,
        "provable" => EffectKind::Provable,
        _ => EffectKind::Opaque,
    }
}
