//! Rules of one test, for the threads that entered them, so that concurrent tests of one process stay independent.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::plan::{self, Action, HitCondition, Rule};

type Decider = dyn Fn(&'static str, u64) -> Option<Action> + Send + Sync;

thread_local! {
    static CURRENT: RefCell<Option<Scenario>> = const { RefCell::new(None) };
}

/// Rules for the threads that have [entered](Self::enter) the scenario.
///
/// Such threads ignore the environment. Clones share one scenario.
#[derive(Clone, Default)]
pub struct Scenario {
    inner: Arc<ScenarioInner>,
}

#[derive(Default)]
struct ScenarioInner {
    decider: Option<Box<Decider>>,
    state: Mutex<ScenarioState>,
}

#[derive(Default)]
struct ScenarioState {
    rules: Vec<Rule>,
    hits: BTreeMap<&'static str, u64>,
}

impl Scenario {
    /// Creates a scenario without rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a scenario in which a function decides every hit, given the name and the number of the hit.
    ///
    /// For simulations that draw from a seed. Explicit rules take precedence.
    pub fn with_decider(
        decider: impl Fn(&'static str, u64) -> Option<Action> + Send + Sync + 'static,
    ) -> Self {
        let inner = ScenarioInner { decider: Some(Box::new(decider)), state: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    /// Sets an action for the next hit of a failpoint, once.
    pub fn set(&self, name: &str, action: Action) {
        self.set_when(name, action, HitCondition::At(1));
    }

    /// Sets an action for some hits of a failpoint, counted from now.
    pub fn set_when(&self, name: &str, action: Action, when: HitCondition) {
        let mut state = self.inner.state.lock();
        let when = when.after(state.hits.get(name).copied().unwrap_or(0));
        state.rules.push(Rule { name: name.to_owned(), action, when });
    }

    /// Removes the rules of a failpoint.
    pub fn clear(&self, name: &str) {
        self.inner.state.lock().rules.retain(|rule| rule.name != name);
    }

    /// Returns the number of hits of a failpoint in this scenario.
    pub fn hits(&self, name: &str) -> u64 {
        self.inner.state.lock().hits.get(name).copied().unwrap_or(0)
    }

    /// Returns the names of all failpoints that were hit in this scenario, sorted.
    pub fn reached(&self) -> Vec<&'static str> {
        self.inner.state.lock().hits.keys().copied().collect()
    }

    /// Applies the scenario to this thread until the guard is dropped.
    pub fn enter(&self) -> ScenarioGuard {
        enter(Some(self.clone()))
    }

    pub(crate) fn of_thread() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Counts a hit and returns its action.
    pub(crate) fn decide(&self, name: &'static str) -> Option<Action> {
        let mut state = self.inner.state.lock();
        let hits = state.hits.entry(name).or_default();
        *hits += 1;
        let hit = *hits;
        let set = plan::decide(&state.rules, name, hit);
        // The function may use the scenario, so it is called without the lock.
        drop(state);
        set.or_else(|| self.inner.decider.as_ref().and_then(|decider| decider(name, hit)))
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.inner.state.lock();
        let mut text = f.debug_struct("Scenario");
        text.field("rules", &state.rules).field("hits", &state.hits).finish_non_exhaustive()
    }
}

/// Returns the scenario of this thread, to pass it to a new thread.
///
/// ```
/// let scenario = provost_failpoint::current();
/// std::thread::spawn(move || {
///     let _entered = scenario.enter();
///     // Failpoints of this thread belong to the scenario of the thread that started it.
/// });
/// ```
pub fn current() -> ScenarioHandle {
    ScenarioHandle { scenario: Scenario::of_thread() }
}

/// Scenario of a thread, if it has one.
#[derive(Debug, Clone)]
pub struct ScenarioHandle {
    scenario: Option<Scenario>,
}

impl ScenarioHandle {
    /// Applies the scenario to this thread until the guard is dropped.
    pub fn enter(&self) -> ScenarioGuard {
        enter(self.scenario.clone())
    }
}

/// Guard that applies a scenario to a thread.
#[derive(Debug)]
#[must_use = "the thread leaves the scenario when this is dropped"]
pub struct ScenarioGuard {
    before: Option<Scenario>,
    /// The guard must be dropped on the thread that created it.
    _thread: PhantomData<*const ()>,
}

fn enter(scenario: Option<Scenario>) -> ScenarioGuard {
    ScenarioGuard { before: CURRENT.replace(scenario), _thread: PhantomData }
}

impl Drop for ScenarioGuard {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}
