//! The log in pages: whole, in order, and cheap wherever one goes on.

use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::resource::AgentSpec;
use provost_core::{Env, Message, RunId, ToolResult};
use provost_engine::Engine;
use provost_model::{self as scripted};
use provost_store::StoredText;
use provost_store::query;
use provost_store::query::event_log::{LogEntry, LogPage};
use provost_store::table::work::journal::{self, EventHeader, NewEvent};
use provost_store::table::work::run;
use serde_json::json;

use crate::harness::{Harness, command};

/// Runs of three tasks in two sessions, with events that come one by one from all of them.
async fn mixed(harness: &Harness, count: usize, body: &str) -> Vec<RunId> {
    let fresh = |session: &str| TaskRequest { new_task: true, ..command(session, "hello") };
    let mut runs = Vec::new();
    for session in ["a", "a", "b"] {
        runs.push(harness.engine.submit(&harness.namespace, fresh(session)).await.unwrap().run);
    }
    for _ in 0..2 {
        // More runs of the first task: one waits behind the other.
        let more = harness.engine.submit(&harness.namespace, command("a", "and?")).await.unwrap();
        runs.push(more.run);
    }
    runs.dedup();
    let env = Env::simulated(3);
    let random = |_| usize::try_from(env.random() % 1_000_003).unwrap();
    let chosen: Vec<RunId> = (0..count).map(|at| runs[random(at) % runs.len()]).collect();
    let body = body.to_owned();
    let written = harness.engine.store().write(move |tx| {
        for run in &chosen {
            append(tx, *run, &body)?;
        }
        Ok::<_, provost_store::StoreError>(())
    });
    written.await.unwrap();
    runs
}

fn append(
    tx: &mut provost_store::Tx<'_>,
    id: RunId,
    body: &str,
) -> Result<(), provost_store::StoreError> {
    // No worker has had any of them.
    let epoch = 0;
    let seq = run::take_event_numbers(tx, id, 1)?.unwrap();
    let event = NewEvent { kind: "noted", body: &StoredText::new(body)?, message_id: None };
    journal::append_events(tx, EventHeader { run: id, epoch, attempt: 0, seq }, &[event])
}

/// Everything, read once.
async fn whole(engine: &Engine) -> Vec<LogEntry> {
    let mut all = Vec::new();
    let mut page = LogPage { has_more: true, ..LogPage::default() };
    while page.has_more {
        page = query::event_log::tail(engine.store(), page.next, 5000).await.unwrap();
        all.append(&mut page.entries);
    }
    all
}

fn positions(entries: &[LogEntry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.pos).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_tasks_sessions_and_namespaces_are_the_log_without_the_others() {
    let harness = Harness::new(|_, _| scripted::text("hi")).await;
    let foreign: Namespace = "other".parse().unwrap();
    harness.engine.put_agent(&foreign, "default", None, AgentSpec::default()).await.unwrap();
    let runs = mixed(&harness, 300, "{}").await;
    harness.engine.submit(&foreign, command("a", "theirs")).await.unwrap();
    mixed(&harness, 200, "{}").await;
    let (engine, ns) = (&harness.engine, &harness.namespace);
    let all = whole(engine).await;
    assert!(all.is_sorted_by(|one, next| one.pos < next.pos));
    let mut places =
        query::event_log::run_scopes(engine.store(), all.iter().map(|entry| entry.run).collect())
            .await
            .unwrap();
    let task = places[&runs[0]].task;
    for limit in [1, 7, 64, 5000] {
        for after in [0, 1, 133, 400, all.last().unwrap().pos, 9_999_999] {
            let mut wanted: Vec<&LogEntry> = all.iter().filter(|one| one.pos > after).collect();
            wanted.retain(|entry| places[&entry.run].namespace == ns.as_str());
            let of = |keep: &dyn Fn(&LogEntry) -> bool| -> Vec<u64> {
                wanted.iter().filter(|entry| keep(entry)).map(|entry| entry.pos).collect()
            };
            let (mut of_ns, mut of_task, mut of_session) = (Vec::new(), Vec::new(), Vec::new());
            let (mut next, mut more) = ([after; 3], [true; 3]);
            while more.contains(&true) {
                let pages = [
                    query::event_log::of_namespace(engine.store(), ns, next[0], limit)
                        .await
                        .unwrap(),
                    query::event_log::of_task(engine.store(), ns, task, next[1], limit)
                        .await
                        .unwrap(),
                    query::event_log::of_session(engine.store(), ns, "a", next[2], limit)
                        .await
                        .unwrap(),
                ];
                for (place, page) in pages.iter().enumerate() {
                    assert!(page.entries.len() as u64 <= limit);
                    (next[place], more[place]) = (page.next, page.has_more);
                }
                let [a, b, c] = pages;
                of_ns.extend(positions(&a.entries));
                of_task.extend(positions(&b.entries));
                of_session.extend(positions(&c.entries));
            }
            assert_eq!(of_ns, of(&|_| true), "{limit} after {after}");
            assert_eq!(of_task, of(&|entry| places[&entry.run].task == task), "{limit} {after}");
            assert_eq!(of_session, of(&|one| places[&one.run].session == "a"), "{limit} {after}");
        }
    }
    let of_run: Vec<_> = all.iter().filter(|one| one.run == runs[0] && one.seq > 5).collect();
    let page = query::event_log::of_run(engine.store(), ns, runs[0], 5, 5000).await.unwrap();
    assert_eq!(page.entries.iter().collect::<Vec<_>>(), of_run);
    assert_eq!((page.next, page.has_more), (of_run.last().unwrap().seq, false));
    assert_eq!(
        query::event_log::run_scope(engine.store(), runs[0]).await.unwrap(),
        places.remove(&runs[0])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_bounded_in_bytes_and_nothing_is_left_out() {
    let harness = Harness::new(|_, _| scripted::text("hi")).await;
    let inline = format!("{{\"note\":\"{}\"}}", "x".repeat(8000));
    let runs = mixed(&harness, 3000, &inline).await;
    // Beyond what a row holds, so they are stored beside.
    let large = format!("{{\"note\":\"{}\"}}", "y".repeat(3 << 20));
    let (id, body) = (runs[0], large.clone());
    let written =
        harness.engine.store().write(move |tx| (0..5).try_for_each(|_| append(tx, id, &body)));
    written.await.unwrap();
    let place = query::event_log::run_scope(harness.engine.store(), id).await.unwrap().unwrap();
    let (engine, ns) = (&harness.engine, &harness.namespace);
    let mut entries = Vec::new();
    let mut page = LogPage { has_more: true, ..LogPage::default() };
    let mut pages = 0;
    while page.has_more {
        page = query::event_log::of_session(engine.store(), ns, &place.session, page.next, 5000)
            .await
            .unwrap();
        let bytes: usize = page.entries.iter().flat_map(|entry| &entry.body).map(String::len).sum();
        assert!(bytes <= (8 << 20) + large.len(), "{bytes}");
        entries.append(&mut page.entries);
        pages += 1;
    }
    assert!(pages > 3, "{pages}");
    assert_eq!(entries.iter().filter(|one| one.body.as_ref() == Some(&large)).count(), 5);
    let mut wanted = whole(engine).await;
    let places =
        query::event_log::run_scopes(engine.store(), wanted.iter().map(|one| one.run).collect())
            .await
            .unwrap();
    wanted.retain(|entry| places[&entry.run].session == place.session);
    assert_eq!(positions(&entries), positions(&wanted));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_others_drown_is_read_in_bounded_pages() {
    let harness = Harness::new(|_, _| scripted::text("hi")).await;
    let foreign: Namespace = "other".parse().unwrap();
    harness.engine.put_agent(&foreign, "default", None, AgentSpec::default()).await.unwrap();
    let first = harness.engine.submit(&foreign, command("a", "one")).await.unwrap();
    mixed(&harness, 25_000, "{}").await;
    let second = harness.engine.submit(&foreign, command("b", "two")).await.unwrap();
    let mut found = Vec::new();
    let mut page = LogPage { has_more: true, ..LogPage::default() };
    let mut pages = 0;
    while page.has_more {
        let before = page.next;
        page = query::event_log::of_namespace(harness.engine.store(), &foreign, before, 100)
            .await
            .unwrap();
        assert!(page.next > before && page.next - before <= 20_000);
        found.extend(page.entries.iter().map(|entry| entry.run));
        pages += 1;
    }
    assert_eq!((found, pages), (vec![first.run, second.run], 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_and_results_are_put_in_as_they_are_stored() {
    let harness = Harness::new(|request, _| match request.messages.last().map(|last| last.role) {
        Some(provost_core::Role::User) => scripted::call("pure", json!({"n": 1})),
        _ => scripted::text("all done"),
    })
    .await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "hello there").await;
    let run = harness.wait(accepted.run).await;
    let page = query::event_log::of_run(harness.engine.store(), &harness.namespace, run.id, 0, 500)
        .await
        .unwrap();
    let entries = page.entries;
    assert_eq!(entries.len() as u64, run.next_seq - 1);
    assert!(entries.iter().zip(1..).all(|(entry, seq)| entry.seq == seq));
    let of = |kind: &str| entries.iter().filter(|one| one.kind == kind).collect::<Vec<_>>();
    let text = |entry: &LogEntry| -> String {
        serde_json::from_str::<Message>(entry.message.as_deref().unwrap()).unwrap().text()
    };
    assert_eq!(text(of("user_message")[0]), "hello there");
    assert_eq!(of("turn_finished").into_iter().map(text).collect::<Vec<_>>(), ["", "all done"]);
    let result = of("tool_finished")[0].result.as_deref().unwrap();
    let result: ToolResult = serde_json::from_str(result).unwrap();
    assert_eq!((result.name.as_str(), result.to_text().as_str()), ("pure", "did {\"n\":1}"));
    let told = of("finished")[0].body.as_deref().unwrap();
    assert!(told.contains("all done"), "{told}");
    let bounds = query::event_log::bounds(harness.engine.store()).await.unwrap();
    assert_eq!((bounds.generation, bounds.floor), (0, 0));
    assert_eq!(bounds.last, entries.last().unwrap().pos);
    assert_eq!(query::event_log::generation(harness.engine.store()).await.unwrap(), 0);
    assert_eq!(
        query::event_log::first_retained(harness.engine.store(), &harness.namespace, run.id)
            .await
            .unwrap(),
        Some(1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn g60_the_log_of_another_namespace_is_not_there() {
    let harness = Harness::new(|_, _| scripted::text("hi")).await;
    let accepted = harness.say("chat", "hello").await;
    let (engine, foreign): (_, Namespace) = (&harness.engine, "other".parse().unwrap());
    let (run, task) = (accepted.run, accepted.task);
    let refused = [
        query::event_log::of_run(engine.store(), &foreign, run, 0, 9).await.unwrap_err(),
        query::event_log::of_task(engine.store(), &foreign, task, 0, 9).await.unwrap_err(),
        query::event_log::of_session(engine.store(), &foreign, "chat", 0, 9).await.unwrap_err(),
        query::event_log::first_retained(engine.store(), &foreign, run).await.unwrap_err(),
        query::task_log::of_task(engine.store(), &foreign, task, 0, 9).await.unwrap_err(),
        query::step::list(engine.store(), &foreign, run, 0, 9).await.unwrap_err(),
        query::run::attempts(engine.store(), &foreign, run).await.unwrap_err(),
        query::run_history::snapshots(engine.store(), &foreign, run, 9).await.unwrap_err(),
        query::session::get(engine.store(), &foreign, "chat").await.unwrap_err(),
    ];
    assert!(refused.iter().all(|error| error.code() == "not_found"), "{refused:?}");
    assert_eq!(
        query::event_log::of_namespace(engine.store(), &foreign, 0, 9).await.unwrap().entries,
        []
    );
    assert_eq!(engine.runs().unfinished_turn(&foreign, run), None);
}
