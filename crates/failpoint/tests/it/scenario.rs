//! Failpoints inside one process.

use std::panic::catch_unwind;
use std::sync::mpsc;
use std::thread;

use provost_failpoint::{Action, HitCondition, Scenario, current, failpoint, reached};

fn place() -> Result<u32, String> {
    failpoint!("scenario.place", Err("failed".to_owned()));
    Ok(1)
}

fn plain() {
    failpoint!("scenario.plain");
}

#[test]
fn a_set_place_fails_once() {
    let scenario = Scenario::new();
    let _entered = scenario.enter();
    assert_eq!(place(), Ok(1));
    scenario.set("scenario.place", Action::Error);
    assert_eq!((place(), place()), (Err("failed".to_owned()), Ok(1)));
    assert_eq!(scenario.hits("scenario.place"), 3);
    assert_eq!(scenario.hits("scenario.other"), 0);
    assert_eq!(scenario.reached(), ["scenario.place"]);
    assert!(reached().contains(&"scenario.place"), "the process has its own list");
}

#[test]
fn hits_are_counted_from_the_moment_a_rule_is_set() {
    let scenario = Scenario::new();
    let _entered = scenario.enter();
    assert_eq!(place(), Ok(1));
    scenario.set_when("scenario.place", Action::Error, HitCondition::At(2));
    let failed: Vec<_> = (0..3).map(|_| place().is_err()).collect();
    assert_eq!(failed, [false, true, false]);
    scenario.set_when("scenario.place", Action::Error, HitCondition::From(2));
    let failed: Vec<_> = (0..3).map(|_| place().is_err()).collect();
    assert_eq!(failed, [false, true, true]);
    scenario.clear("scenario.place");
    assert_eq!(place(), Ok(1));
}

#[test]
fn the_value_is_computed_only_when_it_is_needed() {
    fn count(computed: &mut u32) -> u32 {
        failpoint!("scenario.value", {
            *computed += 1;
            *computed
        });
        0
    }
    let scenario = Scenario::new();
    let _entered = scenario.enter();
    let mut computed = 0;
    assert_eq!((count(&mut computed), computed), (0, 0));
    scenario.set("scenario.value", Action::Error);
    assert_eq!((count(&mut computed), computed), (1, 1));
}

#[test]
fn other_threads_are_not_disturbed() {
    let scenario = Scenario::new();
    scenario.set_when("scenario.place", Action::Error, HitCondition::From(1));
    assert_eq!(place(), Ok(1), "not entered yet");
    let entered = scenario.enter();
    assert_eq!(thread::spawn(place).join().unwrap(), Ok(1));
    let handed = current();
    let child = move || {
        let _entered = handed.enter();
        place()
    };
    assert!(thread::spawn(child).join().unwrap().is_err(), "handed over");
    drop(entered);
    assert_eq!(place(), Ok(1), "left");
    let none = current();
    let _entered = scenario.enter();
    let _left = none.enter();
    assert_eq!(place(), Ok(1), "a thread can be handed no scenario");
}

#[test]
fn scenarios_nest() {
    let outer = Scenario::new();
    let _outer = outer.enter();
    outer.set("scenario.place", Action::Error);
    let inner = Scenario::new();
    let entered = inner.enter();
    assert_eq!(place(), Ok(1));
    drop(entered);
    assert!(place().is_err());
    assert_eq!((outer.hits("scenario.place"), inner.hits("scenario.place")), (1, 1));
}

#[test]
fn a_function_can_decide() {
    let scenario = Scenario::with_decider(|name, hit| {
        (name == "scenario.place" && hit == 2).then_some(Action::Error)
    });
    let _entered = scenario.enter();
    plain();
    plain();
    let failed: Vec<_> = (0..3).map(|_| place().is_err()).collect();
    assert_eq!(failed, [false, true, false]);
}

#[test]
fn a_panic_names_the_place() {
    let scenario = Scenario::new();
    let _entered = scenario.enter();
    scenario.set("scenario.plain", Action::Panic);
    let panic = catch_unwind(plain).unwrap_err();
    assert_eq!(panic.downcast_ref::<String>().unwrap(), "failpoint scenario.plain");
    plain();
}

#[test]
fn a_place_without_a_value_cannot_fail() {
    let scenario = Scenario::new();
    let _entered = scenario.enter();
    scenario.set("scenario.plain", Action::Error);
    let panic = catch_unwind(plain).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("scenario.plain=error: this failpoint cannot fail"), "{message}");
}

#[test]
fn a_pause_lasts_until_the_file_exists() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let scenario = Scenario::new();
    scenario.set("scenario.plain", Action::Pause(go.clone()));
    let (arrived, arrival) = mpsc::channel();
    let child = {
        let go = go.clone();
        move || {
            let _entered = scenario.enter();
            arrived.send(()).unwrap();
            plain();
            go.exists()
        }
    };
    let child = thread::spawn(child);
    arrival.recv().unwrap();
    std::fs::write(&go, "").unwrap();
    assert!(child.join().unwrap(), "it went on before the file existed");
}
