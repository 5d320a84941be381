//! Why something waits or failed: each cause is injected, and the explanation names it.

mod answers;
mod ended;
mod ended_otherwise;
mod leased;
mod parked;
mod queued;
mod queued_late;
mod sessions;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use provost_core::id::name::Namespace;
use provost_engine::Engine;
use provost_explain::{Cause, Explanation};
use provost_store::query::QueryError;
use provost_store::query::explain_facts::{self, Subject};

use crate::cluster::Cluster;

/// The tests, to see which causes they inject.
const TESTS: [&str; 9] = [
    include_str!("subagents_more.rs"),
    include_str!("explain/answers.rs"),
    include_str!("explain/ended.rs"),
    include_str!("explain/ended_otherwise.rs"),
    include_str!("explain/leased.rs"),
    include_str!("explain/parked.rs"),
    include_str!("explain/queued.rs"),
    include_str!("explain/queued_late.rs"),
    include_str!("explain/sessions.rs"),
];

/// The commands that an explanation may end with.
const COMMANDS: [&str; 13] = [
    "provost approval approve appr_",
    "provost approval deny appr_",
    "provost run cancel run_",
    "provost run send run_",
    "provost run resume run_",
    "provost run steps run_",
    "provost run list --status running",
    "provost task retry task_",
    "provost class set execclass_",
    "provost session messages ",
    "provost delivery retry dlv_",
    "provost explain ",
    "provost serve",
];

/// Explains a subject.
pub(crate) async fn explain(
    engine: &Engine,
    namespace: &Namespace,
    subject: Subject,
) -> Result<Explanation, QueryError> {
    let facts = explain_facts::read(engine.store(), namespace, subject, engine.local_facts());
    Ok(provost_explain::explain(&facts.await?))
}

/// What an explanation of an engine says. Whatever it is, it has the shape that people and programs rely on.
pub(crate) async fn explained_by(engine: &Engine, subject: impl Display) -> Explanation {
    let name = subject.to_string();
    let asked: Subject = name.parse().unwrap();
    let told = explain(engine, &Namespace::default(), asked).await.unwrap();
    assert_eq!(told.subject, name);
    let one_line = told.cause.ends_with('.') && !told.cause.contains('\n');
    assert!(one_line && !told.cause.contains("unknown"), "{told:#?}");
    for step in &told.next {
        let known = COMMANDS.iter().any(|command| step.command.starts_with(command));
        assert!(known && !step.why.is_empty(), "{step:?}");
    }
    assert!(!told.state.is_empty() && !told.evidence.is_empty(), "{told:#?}");
    let text = serde_json::to_string(&told).unwrap();
    assert_eq!(serde_json::from_str::<Explanation>(&text).unwrap(), told);
    told
}

/// The explanation has this code, and its sentence names what was injected.
pub(crate) async fn named_by(
    engine: &Engine,
    subject: impl Display,
    code: &str,
    names: &[&dyn Display],
) -> Explanation {
    let told = explained_by(engine, subject).await;
    assert_eq!(told.code, code, "{told:#?}");
    for name in names {
        assert!(told.cause.contains(&name.to_string()), "`{name}` is not in: {}", told.cause);
    }
    told
}

/// The same, of the engine of a house.
pub(crate) async fn named(
    cluster: &Cluster,
    subject: impl Display,
    code: &str,
    names: &[&dyn Display],
) -> Explanation {
    named_by(&cluster.engine, subject, code, names).await
}

/// Waits until an explanation has a code.
pub(crate) async fn until(engine: &Engine, subject: impl Display, code: &str) -> Explanation {
    let looking = async {
        loop {
            let told = explained_by(engine, &subject).await;
            if told.code == code {
                return told;
            }
            tokio::task::yield_now().await;
        }
    };
    match tokio::time::timeout(Duration::from_secs(30), looking).await {
        Ok(told) => told,
        Err(_) => panic!("never {code}: {:#?}", explained_by(engine, &subject).await),
    }
}

/// The commands of an explanation.
pub(crate) fn commands(told: &Explanation) -> Vec<&str> {
    told.next.iter().map(|step| step.command.as_str()).collect()
}

#[test]
fn every_cause_is_injected_by_a_test() {
    let source = TESTS.concat();
    let untested: BTreeSet<_> = Cause::ALL
        .iter()
        .map(|cause| cause.code())
        .filter(|code| !source.contains(&format!("\"{code}\"")))
        .collect();
    assert_eq!(untested, BTreeSet::new());
    assert!(Cause::ALL.len() >= 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_or_belongs_to_others_is_not_found() {
    let cluster = Cluster::new(vec![]).await;
    let accepted = cluster.say("chat", "go").await;
    let stranger: Namespace = "stranger".parse().unwrap();
    let (run, task) = (Subject::Run(accepted.run), Subject::Task(accepted.task));
    for subject in [run, task, Subject::Session("chat".to_owned())] {
        let refused = explain(&cluster.engine, &stranger, subject).await.unwrap_err();
        assert_eq!(refused.code(), "not_found");
    }
    for missing in [
        "run_01hzy5dk6tq0v8m3n2p4r6s8wa",
        "task_01hzy5dk6tq0v8m3n2p4r6s8wa",
        "appr_01hzy5dk6tq0v8m3n2p4r6s8wa",
        "dlv_01hzy5dk6tq0v8m3n2p4r6s8wa",
        "nowhere",
    ] {
        let subject: Subject = missing.parse().unwrap();
        let refused = explain(&cluster.engine, &cluster.namespace, subject).await.unwrap_err();
        assert_eq!(refused.code(), "not_found", "{missing}");
    }
}
