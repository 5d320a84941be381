//! Rows: the queries that the engine lives on. For every database.

use std::time::Duration;

use provost_core::lifecycle::{InputKind, InputOutcome, InputState, TaskState};
use provost_core::scheduling::{InputMode, MissedRunPolicy, OverlapPolicy, TimerKind};
use provost_core::usage::BudgetScope;
use provost_core::{Currency, InputId, MessageId, RunId, TaskId, Timestamp};
use provost_store::query::event_log::rows::{self, RunEventRange};
use provost_store::table::governance::agent::{self, AgentRow};
use provost_store::table::governance::budget::{self, BudgetRow};
use provost_store::table::governance::idempotency::{self, IdempotencyRow};
use provost_store::table::outbound::outbox::{self, OutboxRow};
use provost_store::table::scheduling::process_start::ProcessStartRow;
use provost_store::table::scheduling::schedule::{self, ScheduleRow};
use provost_store::table::scheduling::{concurrency_limit, timer};
use provost_store::table::state::blob;
use provost_store::table::work::input::{self, InputRow};
use provost_store::table::work::session_entry::{self, SessionMessageRow};
use provost_store::table::work::task::TaskFilter;
use provost_store::table::work::{journal, message, run_event, task};
use provost_store::{INLINE_BYTES_MAX, StoreError, StoredText, Tx, load_text, params};

use crate::fixture::{self, Fixture, Outcome, at, event, put_run};

pub(crate) async fn g21_bodies_of_any_size_come_back_whole(fixture: Fixture) {
    let store = fixture.open();
    let noise: String = {
        let mut state = 1u64;
        let mut letter = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'!' + (state >> 33) as u8 % 90)
        };
        (0..INLINE_BYTES_MAX * 4).map(|_| letter()).collect()
    };
    for (text, inline) in [
        (String::new(), true),
        ("x".repeat(INLINE_BYTES_MAX), true),
        ("x".repeat(INLINE_BYTES_MAX + 1), false),
        ("äöü".repeat(2_000_000), false),
        (noise, false),
    ] {
        let stored = text.clone();
        let columns =
            store.write(move |tx| StoredText::new(stored.as_str())?.store(tx)).await.unwrap();
        assert_eq!((columns.0.is_some(), columns.1.is_some()), (inline, !inline));
        let (body, blob) = columns;
        let loaded = store.read(move |tx| load_text(tx, body, blob.as_deref())).await.unwrap();
        assert!(loaded.as_deref() == Some(text.as_str()), "{} bytes", text.len());
    }
    let bytes: u64 = store
        .read(|tx| tx.fetch_one("SELECT sum(length(data)) FROM blob", params![]))
        .await
        .unwrap();
    assert!(bytes < 40 * 1024, "repetition is packed, noise is not made longer: {bytes}");
}

pub(crate) async fn a_body_is_stored_once_and_swept_when_nothing_needs_it(fixture: Fixture) {
    let store = fixture.open();
    let body = StoredText::new("y".repeat(INLINE_BYTES_MAX + 1)).unwrap();
    let (first, second): (MessageId, MessageId) = (fixture.env.id(), fixture.env.id());
    for id in [first, second] {
        let body = body.clone();
        store.write(move |tx| message::put(tx, "default", id, &body)).await.unwrap();
    }
    let lonely = StoredText::new("z".repeat(INLINE_BYTES_MAX + 1)).unwrap();
    store.write(move |tx| lonely.store(tx)).await.unwrap();
    let now = fixture.env.now();
    assert_eq!(count(&store, "blob").await, 2);
    let swept = |before: Timestamp| store.write(move |tx| blob::sweep(tx, before, 100));
    assert_eq!(swept(now).await.unwrap(), 0, "what is young may be about to be used");
    fixture.env.advance(Duration::from_secs(7200));
    assert_eq!(swept(fixture.env.now()).await.unwrap(), 1);
    let text = store.read(move |tx| message::text(tx, second)).await.unwrap();
    assert_eq!(text.unwrap().len(), INLINE_BYTES_MAX + 1);
    // Stored again, it is young again.
    let again = body.clone();
    store.write(move |tx| again.store(tx)).await.unwrap();
    store.write(|tx| tx.execute("DELETE FROM message", params![])).await.unwrap();
    assert_eq!(swept(now).await.unwrap(), 0);
}

pub(crate) async fn a_session_is_what_it_was_at_each_revision(fixture: Fixture) {
    let store = fixture.open();
    let env = fixture.env.clone();
    let run: RunId = env.id();
    let messages: Vec<MessageId> = (0..5).map(|_| env.id()).collect();
    let ids = messages.clone();
    let written = store.write(move |tx| {
        fixture::session("s").insert_new(tx)?;
        for (entry, id) in (1u64..).zip(&ids) {
            message::put(tx, "default", *id, &StoredText::new(format!("m{entry}"))?)?;
            SessionMessageRow {
                namespace: "default".into(),
                session_id: "s".into(),
                entry,
                message_id: *id,
                run_id: run,
                // Two with the first revision, two with the second, the summary with the third.
                added: entry.div_ceil(2),
                gone: None,
            }
            .insert(tx)?;
        }
        tx.execute("UPDATE session_entry SET gone = 3 WHERE session_id = 's' AND namespace = 'default' AND entry <= 3", params![])
    });
    assert_eq!(written.await.unwrap(), 3);
    for (revision, expected) in
        [(0, ""), (1, "m1 m2"), (2, "m1 m2 m3 m4"), (3, "m4 m5"), (9, "m4 m5")]
    {
        let (entries, texts) = store
            .read(move |tx| {
                let entries = session_entry::at_revision(tx, "default", "s", revision)?;
                let texts = session_entry::messages_at(tx, "default", "s", revision)?;
                Ok::<_, StoreError>((entries, texts))
            })
            .await
            .unwrap();
        let texts_joined: Vec<_> = texts.iter().map(|message| message.text.as_str()).collect();
        assert_eq!(texts_joined.join(" "), expected, "revision {revision}");
        assert!(entries.iter().map(|e| e.message_id).eq(texts.iter().map(|m| m.id)));
    }
    let other = store.read(|tx| session_entry::at_revision(tx, "elsewhere", "s", 9)).await.unwrap();
    assert!(other.is_empty());
}

pub(crate) async fn event_numbers_are_fenced_and_without_a_gap(fixture: Fixture) {
    let store = fixture.open();
    let run = put_run(&store, &fixture.env).await;
    let id = run.id;
    let leased = store
        .write(move |tx| tx.execute("UPDATE run SET phase = 'leased' WHERE id = ?1", params![id]));
    leased.await.unwrap();
    let append = |epoch: u64, count: u64| {
        let run = run.clone();
        store.write(move |tx| {
            let first = journal::update_progress(tx, &fixture::advance(run.id, epoch, count))?;
            for seq in first.into_iter().flat_map(|first| first..first + count) {
                event(&run, seq).insert(tx)?;
            }
            Ok::<_, StoreError>(first)
        })
    };
    assert_eq!(append(0, 3).await.unwrap(), Some(1));
    assert_eq!(append(7, 1).await.unwrap(), None, "a stale epoch writes nothing");
    assert_eq!(append(0, 2).await.unwrap(), Some(4));
    let (page, last) = store
        .read(move |tx| {
            Ok::<_, StoreError>((run_event::after(tx, id, 2, 2)?, run_event::last(tx, id)?))
        })
        .await
        .unwrap();
    assert_eq!(page.iter().map(|event| event.seq).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(last.unwrap().seq, 5);
}

pub(crate) async fn positions_rise_and_what_is_removed_frees_none(fixture: Fixture) {
    let store = fixture.open();
    let one = put_run(&store, &fixture.env).await;
    let two = put_run(&store, &fixture.env).await;
    let written = store.write(move |tx| {
        for seq in 1..=3 {
            event(&one, seq).insert(tx)?;
            event(&two, seq).insert(tx)?;
        }
        tx.execute("DELETE FROM run_event WHERE pos IN (2, 4)", params![])?;
        event(&one, 4).insert(tx)?;
        let (first, last) = (run_event::first_pos(tx)?, run_event::last_pos(tx)?);
        let page = rows::tail(tx, 1, rows::PageLimit { events: 3, bytes: 1 << 20 })?;
        let whole = RunEventRange { id: one.id, first_seq: 1, first_pos: 1, last_seq: 4 };
        let found = [0, 1, 2, 3, 5, 6].map(|pos| rows::first_after(tx, &whole, pos));
        let short = rows::tail(tx, 0, rows::PageLimit { events: 9, bytes: 1 })?.len();
        Ok::<_, StoreError>(((first, last), page, found, short))
    });
    let (bounds, page, found, short) = written.await.unwrap();
    assert_eq!(bounds, (1, 7), "the next position is above all that were given out");
    let seen: Vec<_> = page.iter().map(|row| (row.pos, row.seq)).collect();
    assert_eq!(seen, [(3, 2), (5, 3), (6, 3)]);
    assert_eq!(found.map(Result::unwrap), [1, 2, 2, 3, 4, 4]);
    assert_eq!(short, 1, "one event is read however small the page");
}

pub(crate) async fn tasks_are_listed_newest_first_page_by_page(fixture: Fixture) {
    let store = fixture.open();
    let ids: Vec<TaskId> = (0..5)
        .map(|_| {
            fixture.env.advance(Duration::from_millis(1));
            fixture.env.id()
        })
        .collect();
    let stored = ids.clone();
    let foreign: TaskId = fixture.env.id();
    let written = store.write(move |tx| {
        for (number, id) in stored.iter().enumerate() {
            let mut task = fixture::task(*id, "default");
            task.state = if number % 2 == 0 { TaskState::Queued } else { TaskState::Done };
            task.archived = (number == 4).then(|| at(1));
            task.insert(tx)?;
        }
        fixture::task(foreign, "elsewhere").insert(tx)
    });
    written.await.unwrap();
    let list = |filter: TaskFilter, limit: u64| {
        let store = store.clone();
        async move {
            let rows =
                store.read(move |tx| task::list(tx, "default", &filter, limit)).await.unwrap();
            rows.into_iter().map(|task| task.id).collect::<Vec<_>>()
        }
    };
    let all = TaskFilter { archived: true, ..TaskFilter::default() };
    assert_eq!(list(all.clone(), 9).await, ids.iter().rev().copied().collect::<Vec<_>>());
    assert_eq!(list(TaskFilter::default(), 2).await, [ids[3], ids[2]]);
    let next = TaskFilter { before: Some(ids[2]), ..TaskFilter::default() };
    assert_eq!(list(next, 2).await, [ids[1], ids[0]]);
    let queued = TaskFilter { state: Some(TaskState::Queued), ..TaskFilter::default() };
    assert_eq!(list(queued, 9).await, [ids[2], ids[0]]);
    let id = ids[0];
    let hidden = store.read(move |tx| task::find(tx, "elsewhere", id)).await.unwrap();
    assert_eq!(hidden, None);
}

pub(crate) async fn the_outbox_is_claimed_once_at_a_time(fixture: Fixture) {
    let store = fixture.open();
    let written = store.write(|tx| {
        for (id, available) in [("b", 0), ("a", 0), ("later", 5000), ("first", -1)] {
            let row = OutboxRow {
                id: id.into(),
                namespace: "default".into(),
                topic: "t".into(),
                body: "{}".into(),
                available: at(available),
                tries: 0,
                claimed_until: None,
                done: None,
                last_error: None,
            };
            row.insert(tx)?;
        }
        Ok::<_, StoreError>(())
    });
    written.await.unwrap();
    let claim = |until: i64, limit: u64| {
        let store = store.clone();
        async move {
            let rows = store.write(move |tx| outbox::claim(tx, at(until), limit)).await.unwrap();
            rows.into_iter().map(|row| (row.id, row.tries)).collect::<Vec<_>>()
        }
    };
    assert_eq!(claim(1000, 2).await, [("first".to_owned(), 1), ("a".to_owned(), 1)]);
    assert_eq!(claim(1000, 2).await, [("b".to_owned(), 1)]);
    store
        .write(|tx| {
            outbox::done(tx, "first")?;
            outbox::retry(tx, "b", 1, at(9000), "no")?;
            // Not the claim that it speaks of.
            outbox::retry(tx, "a", 9, at(9000), "no")
        })
        .await
        .unwrap();
    fixture.env.advance(Duration::from_millis(1000));
    assert_eq!(claim(2000, 9).await, [("a".to_owned(), 2)], "its claim ran out");
    assert_eq!(store.write(|tx| outbox::sweep(tx, at(500), at(0), 9)).await.unwrap(), 1);
}

pub(crate) async fn timers_fire_in_order_and_are_moved_not_doubled(fixture: Fixture) {
    let store = fixture.open();
    let set = store.write(|tx| {
        timer::set(tx, TimerKind::RunDue, "x", at(10))?;
        timer::set(tx, TimerKind::RunDue, "y", at(5))?;
        timer::set(tx, TimerKind::RunDue, "x", at(3))?;
        timer::set(tx, TimerKind::ApprovalExpiry, "x", at(900))?;
        Ok::<_, StoreError>((timer::next(tx)?, timer::due(tx, 9)?.len()))
    });
    assert_eq!(set.await.unwrap(), (Some(at(3)), 0));
    fixture.env.advance(Duration::from_millis(5));
    let due = store.read(|tx| timer::due(tx, 9)).await.unwrap();
    assert_eq!(due.iter().map(|t| t.subject.as_str()).collect::<Vec<_>>(), ["x", "y"]);
    let cleared = store.write(|tx| {
        Ok::<_, StoreError>((
            timer::clear(tx, TimerKind::RunDue, "x")?,
            timer::clear(tx, TimerKind::RunDue, "x")?,
        ))
    });
    assert_eq!(cleared.await.unwrap(), (true, false));
}

pub(crate) async fn money_is_reserved_up_to_the_cap_and_then_settled(fixture: Fixture) {
    let store = fixture.open();
    let row = BudgetRow {
        namespace: "default".into(),
        scope: BudgetScope::Agent("t".into()),
        cap_micros: 100,
        spent_micros: 0,
        reserved_micros: 0,
        currency: Currency::default(),
        period: None,
        period_start: None,
    };
    store.write(move |tx| row.insert(tx)).await.unwrap();
    let steps = store.write(|tx| {
        let reserve = |tx: &mut Tx<'_>, micros| budget::reserve(tx, "default", "agent:t", micros);
        let taken = (reserve(tx, 60)?, reserve(tx, 60)?, reserve(tx, 40)?);
        budget::settle(tx, "default", "agent:t", 60, 10)?;
        Ok::<_, StoreError>((taken, reserve(tx, 51)?, reserve(tx, 50)?))
    });
    assert_eq!(steps.await.unwrap(), ((true, false, true), false, true));
    let unknown = store.write(|tx| budget::reserve(tx, "default", "task:u", 1)).await.unwrap();
    assert!(!unknown);
    let over = store.write(|tx| {
        budget::settle(tx, "default", "agent:t", 1000, 0)?;
        budget::get(tx, "default", "agent:t")
    });
    let row = over.await.unwrap().unwrap();
    assert_eq!((row.reserved_micros, row.spent_micros), (0, 10), "no more than was reserved");
}

pub(crate) async fn ceilings_give_out_as_many_places_as_they_have(fixture: Fixture) {
    let store = fixture.open();
    let taken = store.write(|tx| {
        let scopes = |one: &str, other: &str| [one.to_owned(), other.to_owned()];
        let (both, others) = (scopes("namespace:n", "pool:p"), scopes("namespace:n", "pool:q"));
        concurrency_limit::set(tx, "pool:p", 1)?;
        let taken = (
            concurrency_limit::acquire_slot(tx, &both)?,
            concurrency_limit::acquire_slot(tx, &both)?,
        );
        concurrency_limit::release_slot(tx, &both)?;
        let again = (
            concurrency_limit::acquire_slot(tx, &both)?,
            concurrency_limit::acquire_slot(tx, &others)?,
        );
        concurrency_limit::set(tx, "namespace:n", 1)?;
        concurrency_limit::release_slot(tx, &scopes("namespace:m", "pool:p"))?;
        let last = concurrency_limit::acquire_slot(tx, &both)?;
        let running: Vec<u64> =
            concurrency_limit::list(tx)?.iter().map(|row| row.running).collect();
        Ok::<_, StoreError>((taken, again, last, running))
    });
    // A scope without a ceiling takes everything and counts nothing.
    assert_eq!(taken.await.unwrap(), ((true, false), (true, true), true, vec![1, 1]));
}

pub(crate) async fn what_is_nothing_is_stored_as_nothing_after_something(fixture: Fixture) {
    let store = fixture.open();
    let written = store.write(|tx| {
        for (id, stop) in [("a", Some(at(1))), ("b", None)] {
            ProcessStartRow { id: id.into(), started: at(0), clean_stop: stop }.insert(tx)?;
        }
        tx.fetch_all::<Option<Timestamp>>("SELECT clean_stop FROM boot ORDER BY id", params![])
    });
    assert_eq!(written.await.unwrap(), [Some(at(1)), None]);
}

pub(crate) async fn keys_of_inputs_are_unique_within_a_task_unless_there_is_none(fixture: Fixture) {
    let store = fixture.open();
    let (task, message) = (fixture.env.id(), fixture.env.id());
    let ids: [InputId; 4] = std::array::from_fn(|_| fixture.env.id());
    let row = move |place: usize, key: &str| InputRow {
        id: ids[place],
        namespace: "default".into(),
        task_id: task,
        run_id: None,
        seq: place as u64 + 1,
        mode: InputMode::Queue,
        kind: InputKind::Message,
        message_id: message,
        provenance: "{}".into(),
        request_hash: String::new(),
        idem_key: key.into(),
        state: InputState::Pending,
        outcome: InputOutcome::Queued,
        claimed_epoch: None,
        due: at(0),
        created: at(0),
        updated: at(0),
    };
    let written = store.write(move |tx| {
        let fresh = [row(0, ""), row(1, ""), row(2, "k"), row(3, "k")];
        fresh.iter().map(|row| row.insert_new(tx)).collect::<Result<Vec<_>, _>>()
    });
    assert_eq!(written.await.unwrap(), [true, true, true, false]);
    let found = store.read(move |tx| input::by_key(tx, task, "k")).await.unwrap().unwrap();
    assert_eq!(found.id, ids[2]);
    assert!(store.read(move |tx| input::by_key(tx, task, "")).await.unwrap().is_none());
}

pub(crate) async fn a_key_answers_until_it_expires(fixture: Fixture) {
    let store = fixture.open();
    let row = |key: &str, expires: Option<Timestamp>| IdempotencyRow {
        namespace: "default".into(),
        scope: "accept".into(),
        idem_key: key.into(),
        request_hash: "h".into(),
        result: "{}".into(),
        created: at(0),
        expires,
        task_id: None,
    };
    let (short, kept) = (row("short", Some(at(10))), row("kept", None));
    let inserted = store.write(move |tx| {
        Ok::<_, StoreError>((short.insert_new(tx)?, short.insert_new(tx)?, kept.insert_new(tx)?))
    });
    assert_eq!(inserted.await.unwrap(), (true, false, true));
    assert_eq!(store.write(|tx| idempotency::expire(tx, 9)).await.unwrap(), 0);
    fixture.env.advance(Duration::from_millis(10));
    assert_eq!(store.write(|tx| idempotency::expire(tx, 9)).await.unwrap(), 1);
    let left = store.read(|tx| idempotency::get(tx, "default", "accept", "kept")).await.unwrap();
    assert!(left.is_some());
}

pub(crate) async fn an_agent_keeps_its_revisions_after_it_is_deleted(fixture: Fixture) {
    let store = fixture.open();
    let written = store.write(|tx| {
        for (name, revision) in [("a", 1), ("b", 1), ("b", 2)] {
            let row = AgentRow {
                namespace: "default".into(),
                name: name.into(),
                revision,
                title: None,
                config: "{}".into(),
                hash: "h".into(),
                created: at(0),
                deleted: None,
            };
            row.insert(tx)?;
        }
        let names = |tx: &mut Tx<'_>| -> Outcome<Vec<(String, u64)>> {
            let rows = agent::list(tx, "default", "", 9)?;
            Ok(rows.into_iter().map(|row| (row.name, row.revision)).collect())
        };
        assert_eq!(names(tx)?, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
        assert!(agent::delete(tx, "default", "b")? && !agent::delete(tx, "default", "b")?);
        assert_eq!(names(tx)?, [("a".to_owned(), 1)]);
        Ok::<_, StoreError>((
            agent::latest(tx, "default", "b")?,
            agent::get(tx, "default", "b", 1)?,
        ))
    });
    let (latest, first) = written.await.unwrap();
    assert!(latest.is_some_and(|row| row.revision == 2 && row.deleted.is_some()));
    assert!(first.is_some_and(|row| row.deleted.is_none()));
}

pub(crate) async fn a_schedule_moves_on_once_per_time(fixture: Fixture) {
    let store = fixture.open();
    let row = ScheduleRow {
        namespace: "default".into(),
        id: "daily".into(),
        timing: r#"{"cron":"0 9 * * *"}"#.into(),
        zone: "UTC".into(),
        command: "{}".into(),
        catch_up: MissedRunPolicy::One,
        overlap: OverlapPolicy::Skip,
        jitter_ms: 0,
        next_at: Some(at(0)),
        active: true,
        last_at: None,
        last_task_id: None,
        last_error: None,
        created: at(0),
        updated: at(0),
    };
    let moved = store.write(move |tx| {
        row.insert_new(tx)?;
        let due = schedule::due(tx, 9)?;
        let first = schedule::advance(tx, &due[0], Some(at(1000)))?;
        let twin = schedule::advance(tx, &due[0], Some(at(1000)))?;
        Ok::<_, StoreError>((first, twin, schedule::due(tx, 9)?.len()))
    });
    assert_eq!(moved.await.unwrap(), (true, false, 0));
}

async fn count(store: &provost_store::Store, table: &'static str) -> u64 {
    store
        .read(move |tx| tx.fetch_one(&format!("SELECT count(*) FROM {table}"), params![]))
        .await
        .unwrap()
}
