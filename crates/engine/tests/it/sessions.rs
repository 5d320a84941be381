//! Sessions by name, and workers that serve some sessions only.

use provost_engine::{EngineOptions, NewSession, ServedSessions};
use provost_model as scripted;
use provost_store::query;

use crate::harness::{Harness, options, text};

fn echo(request: &provost_model::ChatRequest, _call: usize) -> provost_model::ScriptedTurn {
    let last = request.messages.last().map(|message| message.text()).unwrap_or_default();
    scripted::text(format!("echo {last}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_leads_to_one_session_until_it_is_given_to_a_new_one() {
    let harness = Harness::new(echo).await;
    let named = NewSession { key: Some("my talk".to_owned()), fresh: false };
    let create = async |new: &NewSession| {
        let created =
            harness.engine.sessions().create(&harness.namespace, new.clone()).await.unwrap();
        (created.row.id, created.is_new)
    };
    let (first, is_new) = create(&named).await;
    assert!(is_new);
    assert_eq!(create(&named).await, (first.clone(), false));
    let other = NewSession { key: Some("other".to_owned()), fresh: false };
    assert_ne!(create(&other).await.0, first);
    let (fresh, is_new) = create(&NewSession { fresh: true, ..named.clone() }).await;
    assert!(is_new && fresh != first);
    assert_eq!(create(&named).await, (fresh, false));
    assert_ne!(create(&NewSession::default()).await.0, create(&NewSession::default()).await.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_a_focus_leaves_other_sessions_alone() {
    let focus = ServedSessions::default();
    let options = EngineOptions { served_sessions: Some(focus.clone()), ..options() };
    let harness = Harness::with(options, echo).await;
    focus.add(&harness.namespace, "mine");
    let theirs = harness.say("theirs", "one").await;
    let _worker = harness.worker().await;
    let mine = harness.say("mine", "two").await;
    assert_eq!(text(&harness.wait(mine.run).await), "echo two");
    let untouched =
        query::run::get(harness.engine.store(), &harness.namespace, theirs.run).await.unwrap();
    assert_eq!((untouched.phase.as_str(), untouched.claim_count), ("queued", 0));
    focus.add(&harness.namespace, "theirs");
    assert_eq!(text(&harness.wait(theirs.run).await), "echo one");
}
