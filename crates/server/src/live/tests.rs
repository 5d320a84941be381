//! Seats and the board by themselves.

use std::sync::Arc;

use bytes::Bytes;
use provost_bus::{LiveEvent, RunAddress};
use provost_core::lifecycle::RunStatus;
use provost_core::{Env, Event, EventKind, RunId};
use provost_store::query::event_log::RunPlace;

use super::delta::QueuedDelta;
use super::registry::Board;
use super::subscriber::{Frame, Taken, Wants, What};
use super::topic::Topic;

fn event(at: u64, bytes: usize) -> Arc<Frame> {
    let what = What::Event { at, epoch: 1, end: None };
    Arc::new(Frame { bytes: Bytes::from(vec![b'x'; bytes]), what })
}

fn live(run: RunId, number: u64) -> Arc<Frame> {
    Arc::new(Frame { bytes: Bytes::from_static(b"x"), what: What::Live { run, epoch: 1, number } })
}

fn place(env: &Env) -> (RunId, RunPlace) {
    let namespace = "default".to_owned();
    (
        env.id(),
        RunPlace { namespace, task: env.id(), session: "chat".to_owned(), above: Vec::new() },
    )
}

#[test]
fn g45_a_seat_that_nobody_empties_holds_a_bounded_amount() {
    let env = Env::simulated(1);
    let (run, place) = place(&env);
    let board = Arc::new(Board::new());
    let topics = Topic::of(run, &place);
    let seat = Board::seat(&board, Topic::Run(run), Wants::Everything);
    seat.listen();
    for number in 0..1000 {
        board.hand_same(&topics, &live(run, number));
    }
    let frame = event(1, 100);
    board.hand_same(&topics, &frame);
    assert!(Arc::strong_count(&frame) == 2, "durable events find a place after live pieces");
    for at in 2..1000 {
        board.hand_same(&topics, &event(at, 100));
    }
    assert_eq!(Arc::strong_count(&frame), 1, "what is left out is let go of");
    assert!(matches!(seat.take(), Taken::Behind));
    seat.begin();
    assert!(matches!(seat.take(), Taken::Missed(1000)));
    assert!(matches!(seat.take(), Taken::Nothing));
    // Large events count by their size, but one is always taken.
    let large = event(2000, 1 << 20);
    board.hand_same(&topics, &large);
    assert_eq!(Arc::strong_count(&large), 2);
    board.hand_same(&topics, &event(2001, 1));
    assert!(matches!(seat.take(), Taken::Behind));
    assert_eq!(Arc::strong_count(&large), 1);
}

#[test]
fn live_pieces_that_come_before_a_viewer_has_caught_up_are_not_missed() {
    let env = Env::simulated(1);
    let (run, place) = place(&env);
    let board = Arc::new(Board::new());
    let topics = Topic::of(run, &place);
    let seat = Board::seat(&board, Topic::Task(place.task), Wants::Everything);
    board.hand_same(&topics, &live(run, 0));
    board.lost(3);
    assert!(matches!(seat.take(), Taken::Nothing));
    seat.listen();
    board.hand_same(&topics, &live(run, 1));
    assert!(matches!(seat.take(), Taken::Frame(_)));
    board.lost(3);
    assert!(matches!(seat.take(), Taken::Missed(3)));
}

#[test]
fn whoever_goes_leaves_the_others_where_they_are() {
    let env = Env::simulated(1);
    let (run, place) = place(&env);
    let board = Arc::new(Board::new());
    let topics = Topic::of(run, &place);
    let mut seats: Vec<_> =
        (0..10).map(|_| Board::seat(&board, Topic::Run(run), Wants::Events)).collect();
    for gone in [0, 8, 3, 3] {
        seats.remove(gone);
    }
    assert_eq!(board.viewers(), 6);
    let frame = event(1, 1);
    board.hand_same(&topics, &frame);
    assert_eq!(Arc::strong_count(&frame), 7);
    assert!(seats.iter().all(|seat| matches!(seat.take(), Taken::Frame(_))));
    assert!(!board.rest());
    seats.clear();
    assert_eq!(board.viewers(), 0);
    assert!(board.rest());
}

#[tokio::test]
async fn a_waiter_is_woken_by_an_end_only() {
    let env = Env::simulated(1);
    let (run, place) = place(&env);
    let board = Arc::new(Board::new());
    let topics = Topic::of(run, &place);
    let seat = Board::seat(&board, Topic::Task(place.task), Wants::Ends);
    board.hand_same(&topics, &event(1, 1));
    board.hand_same(&topics, &live(run, 1));
    let changed = seat.changed();
    tokio::pin!(changed);
    assert!(futures::poll!(&mut changed).is_pending());
    let what = What::Event { at: 2, epoch: 1, end: Some(RunStatus::Ok) };
    board.hand_same(&topics, &Arc::new(Frame { bytes: Bytes::new(), what }));
    assert!(futures::poll!(&mut changed).is_ready());
    assert!(matches!(seat.take(), Taken::Nothing), "nothing is kept for it");
}

#[test]
fn pieces_of_an_attempt_that_has_lost_its_run_are_dropped() {
    let env = Env::simulated(1);
    let (run, place) = place(&env);
    let board = Arc::new(Board::new());
    let said = |epoch| {
        let RunPlace { namespace, task, session, above } = place.clone();
        let kind = EventKind::TextDelta { text: "x".to_owned() };
        let (v, at) = (provost_core::EVENT_VERSION, env.now());
        let event = Event { v, run_id: run, seq: 1, at, agent: "a".into(), kind };
        let place = Arc::new(RunAddress { namespace, task, session, above, run, epoch });
        QueuedDelta::of(&board, &LiveEvent { place, number: 1, event }).is_some()
    };
    assert!(!said(1), "nobody watches");
    let seat =
        Board::seat(&board, Topic::Session("default".into(), "chat".into()), Wants::Everything);
    assert!(said(1));
    board.runs.lock().unwrap().get(run).unwrap().observe_epoch(2);
    assert!(!said(1), "a newer epoch has the run");
    assert!(said(2));
    drop(seat);
}

#[test]
fn places_that_nobody_asks_for_are_forgotten() {
    let env = Env::simulated(1);
    let board = Board::new();
    let mut runs_cache = board.runs.lock().unwrap();
    let (first, place) = place(&env);
    runs_cache.put(first, &place);
    let mut runs = Vec::new();
    for _ in 0..20_000 {
        let run = env.id();
        runs_cache.put(run, &place);
        runs.push(run);
        assert!(runs_cache.get(first).is_some(), "what is asked for stays");
    }
    assert!(runs[..10_000].iter().all(|run| runs_cache.get(*run).is_none()));
}
