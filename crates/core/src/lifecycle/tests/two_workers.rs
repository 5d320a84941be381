//! Every history of two workers and one run.
//!
//! The explorer tries each action in each state that can be reached, checks the promises at every step, and then asks of
//! every state whether the run can still come to an end.

use std::collections::HashMap;

use action::Action;
use world::{Fence, Rules, Violation, World};

use crate::lifecycle::RunStatus;
use crate::recovery::{EffectClass, EffectRecovery, UnknownEffectPolicy};
use crate::usage::limits::CRASHES_MAX;

mod action;
mod lease;
mod world;

/// Every reachable world, with what leads out of it.
struct Explored {
    worlds: Vec<World>,
    ways: Vec<Vec<(Action, usize)>>,
}

/// Tries everything. A broken promise comes back with the history that breaks it.
fn explore(rules: Rules) -> Result<Explored, Violation> {
    let actions = Action::all();
    let mut explored = Explored { worlds: vec![World::START], ways: Vec::new() };
    let mut known = HashMap::from([(World::START, 0)]);
    let mut came_from: Vec<Option<(usize, Action)>> = vec![None];
    while explored.ways.len() < explored.worlds.len() {
        let here = explored.ways.len();
        let mut ways = Vec::new();
        for &action in &actions {
            let after = explored.worlds[here]
                .after(action, rules)
                .map_err(|broken| format!("{broken} by {:?}", history(&came_from, here, action)))?;
            let Some(world) = after else { continue };
            let there = *known.entry(world).or_insert_with(|| {
                explored.worlds.push(world);
                came_from.push(Some((here, action)));
                explored.worlds.len() - 1
            });
            ways.push((action, there));
        }
        explored.ways.push(ways);
    }
    Ok(explored)
}

fn history(came_from: &[Option<(usize, Action)>], mut here: usize, last: Action) -> Vec<Action> {
    let mut actions = vec![last];
    while let Some((before, action)) = came_from[here] {
        actions.push(action);
        here = before;
    }
    actions.reverse();
    actions
}

impl Explored {
    /// From which worlds can a world like this be reached without the actions that cut a run short?
    fn can_reach(&self, goal: impl Fn(&World) -> bool) -> Vec<bool> {
        let mut into: Vec<Vec<usize>> = vec![Vec::new(); self.worlds.len()];
        for (here, ways) in self.ways.iter().enumerate() {
            for (action, there) in ways {
                if !matches!(action, Action::RequestCancel | Action::Timeout) {
                    into[*there].push(here);
                }
            }
        }
        let mut reaches: Vec<bool> = self.worlds.iter().map(goal).collect();
        let mut open: Vec<usize> = (0..reaches.len()).filter(|here| reaches[*here]).collect();
        while let Some(there) = open.pop() {
            for &here in &into[there] {
                if !std::mem::replace(&mut reaches[here], true) {
                    open.push(here);
                }
            }
        }
        reaches
    }
}

/// One set of rules for each way to recover; classes that recover alike have the same histories.
fn all_rules() -> Vec<Rules> {
    let mut rules: Vec<Rules> = Vec::new();
    for &class in EffectClass::ALL {
        for &on_unknown in UnknownEffectPolicy::ALL {
            let recovery = class.on_unknown(on_unknown);
            if !rules.iter().any(|rules| rules.class.on_unknown(rules.on_unknown) == recovery) {
                rules.push(Rules { fence: Fence::Real, class, on_unknown });
            }
        }
    }
    assert_eq!(rules.len(), EffectRecovery::ALL.len());
    rules
}

#[test]
fn g07_g47_no_history_of_two_workers_breaks_a_promise_and_every_one_can_end() {
    for rules in all_rules() {
        let explored = explore(rules).unwrap_or_else(|broken| panic!("{rules:?}: {broken}"));
        let count = explored.worlds.len();
        assert!(count > 1000, "{rules:?}: only {count} worlds, the model does not move");
        let ends = explored.can_reach(|world| world.run.is_terminal());
        let well = explored.can_reach(|world| world.run.status() == RunStatus::Ok);
        for (here, world) in explored.worlds.iter().enumerate() {
            assert!(ends[here], "{rules:?}: stuck in {world:?}");
            let may_fail = world.run.is_terminal()
                || world.cancel
                || world.crashes + 1 >= CRASHES_MAX
                || (rules.class == EffectClass::Opaque
                    && rules.on_unknown == UnknownEffectPolicy::FailRun);
            assert!(well[here] || may_fail, "{rules:?}: cannot end well from {world:?}");
        }
    }
}

#[test]
fn a_repeatable_effect_may_happen_twice_so_the_model_sees_repeats() {
    let rules = Rules {
        fence: Fence::Real,
        class: EffectClass::Pure,
        on_unknown: UnknownEffectPolicy::ReportToModel,
    };
    let explored = explore(rules).unwrap();
    assert!(explored.worlds.iter().any(|world| world.effects[0] > 1));
}

#[test]
fn a16_07_without_a_fence_a_worker_that_slept_writes_on() {
    let rules = Rules {
        fence: Fence::Missing,
        class: EffectClass::Pure,
        on_unknown: UnknownEffectPolicy::ReportToModel,
    };
    let broken = explore(rules).err().expect("the fault is found");
    assert!(broken.starts_with("a worker wrote that had no right to"), "{broken}");
}

/// The epoch alone is not enough: between the loss of a lease and the next claim it has not changed yet.
#[test]
fn a_fence_that_compares_only_the_epoch_lets_a_lost_worker_write_to_a_queued_run() {
    let rules = Rules {
        fence: Fence::EpochOnly,
        class: EffectClass::Pure,
        on_unknown: UnknownEffectPolicy::ReportToModel,
    };
    let broken = explore(rules).err().expect("the fault is found");
    assert!(broken.starts_with("a worker wrote that had no right to"), "{broken}");
}
