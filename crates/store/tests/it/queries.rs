//! Queries over tasks, runs and inputs: what a query finds is compared with a search through all rows. For every
//! database.

use std::cmp::Reverse;
use std::time::Duration;

use provost_core::lifecycle::{InputKind, InputOutcome, InputState, RunPhase};
use provost_core::scheduling::{InputMode, TimerKind};
use provost_core::{Env, RunId, SessionId, TaskId};
use provost_store::query::{event_log, pending_work};
use provost_store::table::work::input::{self, InputRow};
use provost_store::table::work::run::{self, RunFilter, RunRow};
use provost_store::table::work::session::SessionRef;
use provost_store::table::work::task::{self, TaskFilter, TaskRow};
use provost_store::{StoreError, Tx, params};

use crate::fixture::{self, Fixture, at, event};

/// Enough for each kind of row to stand beside each other one.
const ROWS: u64 = 60;

/// All rows, as they were made.
#[derive(Clone, Default)]
struct Rows {
    tasks: Vec<TaskRow>,
    runs: Vec<RunRow>,
    inputs: Vec<InputRow>,
}

/// Numbers that are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Tasks with runs and messages. Some begin a session, as a command does; some are in one that was there, or in one
/// of another namespace with the same name.
fn rows(env: &Env) -> Rows {
    let (mut dice, mut rows) = (Dice(7), Rows::default());
    for _ in 0..ROWS {
        env.advance(Duration::from_millis(1));
        let id: TaskId = env.id();
        let namespace = ["default", "other"][dice.below(2) as usize];
        let session = match (rows.tasks.as_slice(), dice.below(3)) {
            ([], _) | (_, 0) => env.id::<SessionId>().to_string(),
            (tasks, _) => tasks[dice.below(tasks.len() as u64) as usize].session_id.clone(),
        };
        let task = TaskRow { session_id: session, ..fixture::task(id, namespace) };
        let mut newest = None;
        for ordinal in 1..=1 + dice.below(3) {
            let run = RunRow {
                ordinal,
                phase: [RunPhase::Queued, RunPhase::Queued, RunPhase::Leased, RunPhase::Done]
                    [dice.below(4) as usize],
                ready: dice.below(2) == 0,
                // No two of a session have the same.
                rank: rows.runs.len() as i64 * 7 % 31,
                not_before: at(dice.below(2) as i64),
                next_seq: 2,
                ..fixture::run(env.id(), &task)
            };
            newest = Some(run.id);
            let seq = ordinal;
            rows.inputs.push(InputRow {
                id: env.id(),
                namespace: namespace.into(),
                task_id: id,
                run_id: (dice.below(5) > 0).then_some(run.id),
                seq,
                mode: InputMode::Queue,
                kind: InputKind::Message,
                message_id: env.id(),
                provenance: "{}".into(),
                request_hash: String::new(),
                idem_key: String::new(),
                state: [InputState::Pending, InputState::Claimed, InputState::Consumed]
                    [dice.below(3) as usize],
                outcome: InputOutcome::Queued,
                claimed_epoch: None,
                due: at(0),
                created: at(0),
                updated: at(0),
            });
            rows.runs.push(run);
        }
        rows.tasks.push(TaskRow { current_run_id: newest, ..task });
    }
    rows
}

fn put(tx: &mut Tx<'_>, rows: &Rows) -> Result<(), StoreError> {
    fixture::class().insert(tx)?;
    rows.tasks.iter().try_for_each(|row| row.insert(tx))?;
    rows.runs.iter().try_for_each(|row| row.insert(tx))?;
    rows.runs.iter().try_for_each(|row| event(row, 1).insert(tx))?;
    rows.inputs.iter().try_for_each(|row| row.insert(tx))
}

/// The rows that meet a condition, in an order.
fn those<T: Clone, K: Ord>(
    rows: &[T],
    wanted: impl Fn(&T) -> bool,
    order: impl Fn(&T) -> K,
) -> Vec<T> {
    let mut found: Vec<T> = rows.iter().filter(|row| wanted(row)).cloned().collect();
    found.sort_by_key(order);
    found
}

pub(crate) async fn runs_and_messages_of_a_task_are_found(fixture: Fixture) {
    let (store, rows) = (fixture.open(), rows(&fixture.env));
    let looked = store.write(move |tx| {
        put(tx, &rows)?;
        for task in &rows.tasks {
            let runs = those(&rows.runs, |run| run.task_id == task.id, |run| run.ordinal);
            assert_eq!(run::of_task(tx, task.id)?, runs);
            assert_eq!(run::last_of_task(tx, task.id)?, runs.last().cloned());
            let live = runs.iter().filter(|run| run.phase != RunPhase::Done).count();
            assert_eq!(run::live_of_task(tx, task.id)?.len(), live);
            let filter = RunFilter { task_id: Some(task.id), ..RunFilter::default() };
            let logged = event_log::rows::runs_of_task(tx, task.id, 0)?;
            assert_eq!(logged.len(), runs.len());
            let listed = those(&runs, |_| true, |run| Reverse(run.id));
            assert_eq!(run::list(tx, &task.namespace, &filter, 9)?, listed);

            let said = those(&rows.inputs, |row| row.task_id == task.id, |row| row.seq);
            assert_eq!(input::of_task(tx, task.id, 0, 9)?, said);
            assert_eq!(input::of_task(tx, task.id, 0, 1)?, said[..1]);
            assert_eq!(input::of_task(tx, task.id, 1, 9)?, said[1..]);
            let pending = those(&said, |row| row.state == InputState::Pending, |row| row.seq);
            assert_eq!(input::pending(tx, task.id, 9)?, pending);
        }
        for run in &rows.runs {
            let said = those(&rows.inputs, |row| row.run_id == Some(run.id), |row| row.seq);
            assert_eq!(input::of_run(tx, run.id)?, said);
            let waiting = those(&said, |row| row.state == InputState::Pending, |row| row.seq);
            assert_eq!(input::pending_of_run(tx, run.id)?, waiting);
            assert_eq!(input::has_pending(tx, run.id)?, !waiting.is_empty());
            let same_session =
                |row: &RunRow| row.namespace == run.namespace && row.session_id == run.session_id;
            let left = pending_work::of_run(
                tx,
                run,
                [TimerKind::RunDue, TimerKind::QueueDeadline, TimerKind::ChildWait],
            )?;
            assert_eq!(left.inputs, said.iter().any(|row| row.state != InputState::Consumed));
            let others = |row: &&RunRow| row.task_id == run.task_id && row.phase != RunPhase::Done;
            assert_eq!(
                left.other_runs,
                rows.runs.iter().filter(others).any(|row| row.id != run.id)
            );
            let waits = |row: &RunRow| {
                same_session(row) && row.phase == RunPhase::Queued && row.id != run.id
            };
            assert_eq!(left.queued_runs, rows.runs.iter().any(waits));
        }
        Ok::<_, StoreError>(())
    });
    looked.await.unwrap();
}

pub(crate) async fn tasks_and_runs_of_a_session_are_found(fixture: Fixture) {
    let (store, rows) = (fixture.open(), rows(&fixture.env));
    let looked = store.write(move |tx| {
        put(tx, &rows)?;
        for TaskRow { namespace, session_id: session, .. } in &rows.tasks {
            let tasks = those(
                &rows.tasks,
                |row| row.namespace == *namespace && row.session_id == *session,
                |row| Reverse(row.id),
            );
            assert_eq!(task::newest_of_session(tx, namespace, session)?, tasks.first().cloned());
            assert_eq!(
                task::latest_for_agent(tx, namespace, session, None)?,
                tasks.first().cloned()
            );
            let of_session =
                TaskFilter { session_id: Some(session.clone()), ..TaskFilter::default() };
            let mut filter = of_session.clone();
            for task in &tasks {
                let page = task::list(tx, namespace, &filter, 1)?;
                assert_eq!(page, std::slice::from_ref(task));
                filter.before = Some(task.id);
            }
            assert_eq!(task::list(tx, namespace, &filter, 1)?, []);
            assert_eq!(task::list(tx, namespace, &of_session, 99)?, tasks);

            let runs = those(
                &rows.runs,
                |row| row.namespace == *namespace && row.session_id == *session,
                |row| Reverse(row.id),
            );
            let filter = RunFilter { session_id: Some(session.clone()), ..RunFilter::default() };
            assert_eq!(run::list(tx, namespace, &filter, 999)?, runs);
            let mut logged: Vec<RunId> = Vec::new();
            for run in
                event_log::rows::runs_of_session(tx, SessionRef { namespace, id: session }, 0)?
            {
                logged.push(run.id);
            }
            logged.sort_by_key(|id| Reverse(*id));
            assert!(logged.iter().eq(runs.iter().map(|run| &run.id)), "and of no other namespace");

            let waiting =
                those(&runs, |row| row.phase == RunPhase::Queued, |row| (row.rank, row.id));
            assert_eq!(run::first_waiting(tx, namespace, session)?, waiting.first().cloned());
            let due = waiting.iter().find(|row| row.not_before <= tx.now()).cloned();
            assert_eq!(run::first_due(tx, namespace, session)?, due);
            for (before, run) in waiting.iter().enumerate() {
                assert!(run::has_rank(tx, namespace, session, run.rank)?);
                assert_eq!(run::ahead_in_session(tx, run)?, before as u64);
            }
            assert!(!run::has_rank(tx, namespace, session, 1_000)?);
        }
        Ok::<_, StoreError>(())
    });
    looked.await.unwrap();
}

pub(crate) async fn runs_of_a_namespace_are_listed_page_by_page(fixture: Fixture) {
    let (store, rows) = (fixture.open(), rows(&fixture.env));
    let looked = store.write(move |tx| {
        put(tx, &rows)?;
        for phase in [None, Some(RunPhase::Queued)] {
            let runs = those(
                &rows.runs,
                |row| {
                    row.namespace == "other"
                        && phase.as_ref().is_none_or(|phase| row.phase == *phase)
                },
                |row| Reverse(row.id),
            );
            let mut filter = RunFilter { phase, ..RunFilter::default() };
            for page in runs.chunks(7) {
                assert_eq!(run::list(tx, "other", &filter, 7)?, page);
                filter.before = page.last().map(|row| row.id);
            }
            assert_eq!(run::list(tx, "other", &filter, 7)?, []);
        }
        Ok::<_, StoreError>(())
    });
    looked.await.unwrap();
}

pub(crate) async fn one_run_of_a_session_is_made_ready_and_no_other(fixture: Fixture) {
    let (store, rows) = (fixture.open(), rows(&fixture.env));
    let made = store.write(move |tx| {
        put(tx, &rows)?;
        for TaskRow { namespace, session_id: session, .. } in &rows.tasks {
            let first = run::first_due(tx, namespace, session)?.map(|row| row.id);
            run::set_ready(tx, namespace, session, first)?;
        }
        let ready: Vec<(String, String, RunId)> = tx.fetch_all(
            "SELECT namespace, session_id, id FROM run WHERE phase = 'queued' AND ready = 1",
            params![],
        )?;
        let mut expected: Vec<(String, String, RunId)> = Vec::new();
        for TaskRow { namespace, session_id: session, .. } in &rows.tasks {
            let first = run::first_due(tx, namespace, session)?.map(|row| row.id);
            let marked =
                run::ready_of_session(tx, SessionRef { namespace, id: session }, "default", 9)?;
            assert_eq!(marked.map(|(id, _)| id), first);
            expected.extend(first.map(|id| (namespace.clone(), session.clone(), id)));
        }
        assert_eq!(run::sessions_with_wrong_ready_flag(tx, 99)?, []);
        Ok::<_, StoreError>((ready, expected))
    });
    let (mut ready, mut expected) = made.await.unwrap();
    ready.sort();
    expected.sort();
    expected.dedup();
    assert_eq!(ready, expected);
}

pub(crate) async fn a_message_that_another_run_gets_is_found_with_that_one(fixture: Fixture) {
    let store = fixture.open();
    let rows = rows(&fixture.env);
    let moved = store.write(move |tx| {
        put(tx, &rows)?;
        let first = rows.inputs.iter().find(|row| row.seq == 1 && row.run_id.is_some()).unwrap();
        let other = rows.runs.iter().find(|run| run.task_id != first.task_id).unwrap().id;
        let before = input::of_run(tx, other)?.len();
        task::lock(tx, first.task_id)?;
        input::assign(tx, first.id, other)?;
        let of_first = input::of_run(tx, first.run_id.unwrap())?;
        assert!(of_first.iter().all(|row| row.id != first.id));
        assert_eq!(input::of_run(tx, other)?.len(), before + 1);
        assert_eq!(input::of_task(tx, first.task_id, 0, 1)?[0].id, first.id);
        Ok::<_, StoreError>(())
    });
    moved.await.unwrap();
}
