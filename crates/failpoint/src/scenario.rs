//! Rules of one test, for the threads that entered them: tests of one process do not disturb each other.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::plan::{self, Action, Rule, When};

type Judge = dyn Fn(&'static str, u64) -> Option<Action> + Send + Sync;

thread_local! {
    static CURRENT: RefCell<Option<Scenario>> = const { RefCell::new(None) };
}

/// What shall happen at which places, for the threads that [entered](Self::enter) it.
///
/// Such threads ignore the environment. Clones are the same scenario.
#[derive(Clone, Default)]
pub struct Scenario {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    judge: Option<Box<Judge>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    hits: BTreeMap<&'static str, u64>,
}

impl Scenario {
    /// A scenario in which nothing happens yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A scenario in which a function decides at every hit, given the name and the number of the hit.
    ///
    /// This is for simulations that draw from a seed. Rules that are set come first.
    pub fn deciding(
        judge: impl Fn(&'static str, u64) -> Option<Action> + Send + Sync + 'static,
    ) -> Self {
        let inner = Inner { judge: Some(Box::new(judge)), state: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    /// Lets an action happen at the next hit of a place, once.
    pub fn set(&self, name: &str, action: Action) {
        self.set_when(name, action, When::At(1));
    }

    /// Lets an action happen at some hits of a place, counted from now.
    pub fn set_when(&self, name: &str, action: Action, when: When) {
        let mut state = self.state();
        let when = when.after(state.hits.get(name).copied().unwrap_or(0));
        state.rules.push(Rule { name: name.to_owned(), action, when });
    }

    /// Forgets what was set for a place.
    pub fn clear(&self, name: &str) {
        self.state().rules.retain(|rule| rule.name != name);
    }

    /// How often a place was hit in this scenario.
    pub fn hits(&self, name: &str) -> u64 {
        self.state().hits.get(name).copied().unwrap_or(0)
    }

    /// The names of all places that were hit in this scenario, sorted.
    pub fn reached(&self) -> Vec<&'static str> {
        self.state().hits.keys().copied().collect()
    }

    /// Makes this thread a part of the scenario until the value is dropped.
    pub fn enter(&self) -> Entered {
        enter(Some(self.clone()))
    }

    pub(crate) fn of_thread() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Counts a hit and says what happens at it.
    pub(crate) fn decide(&self, name: &'static str) -> Option<Action> {
        let mut state = self.state();
        let hits = state.hits.entry(name).or_default();
        *hits += 1;
        let hit = *hits;
        let set = plan::decide(&state.rules, name, hit);
        // The function may ask the scenario, so it is called without the lock.
        drop(state);
        set.or_else(|| self.inner.judge.as_ref().and_then(|judge| judge(name, hit)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        let mut text = f.debug_struct("Scenario");
        text.field("rules", &state.rules).field("hits", &state.hits).finish_non_exhaustive()
    }
}

/// The scenario of this thread, to be handed to a thread that it starts.
///
/// ```
/// let scenario = provost_failpoint::current();
/// std::thread::spawn(move || {
///     let _entered = scenario.enter();
///     // Places that this thread reaches belong to the scenario of the thread that started it.
/// });
/// ```
pub fn current() -> Current {
    Current { scenario: Scenario::of_thread() }
}

/// The scenario of a thread, if it is in one.
#[derive(Debug, Clone)]
pub struct Current {
    scenario: Option<Scenario>,
}

impl Current {
    /// Makes this thread a part of the scenario until the value is dropped.
    pub fn enter(&self) -> Entered {
        enter(self.scenario.clone())
    }
}

/// The time a thread spends in a scenario.
#[derive(Debug)]
#[must_use = "the thread leaves the scenario when this is dropped"]
pub struct Entered {
    before: Option<Scenario>,
    /// What belongs to a thread must not be dropped on another one.
    _thread: PhantomData<*const ()>,
}

fn enter(scenario: Option<Scenario>) -> Entered {
    Entered { before: CURRENT.replace(scenario), _thread: PhantomData }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}
