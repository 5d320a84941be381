//! What is left without the feature `enabled`: constant functions that do nothing.
//!
//! There is no `Scenario` here, so a test that needs one does not compile instead of passing for the wrong reason.

/// Does nothing.
#[inline(always)]
pub const fn reach(_name: &'static str) {}

/// Never fails.
#[inline(always)]
pub const fn fails(_name: &'static str) -> bool {
    false
}

/// The scenario of this thread, to be handed to a thread it starts: nothing.
#[inline(always)]
pub const fn current() -> Current {
    Current {}
}

/// The scenario of a thread: nothing.
#[derive(Debug, Clone)]
pub struct Current {}

impl Current {
    /// Makes the thread a part of the scenario: does nothing.
    #[inline(always)]
    pub const fn enter(&self) -> Entered {
        Entered {}
    }
}

/// The time a thread spends in a scenario: nothing.
#[derive(Debug)]
#[must_use = "the thread leaves the scenario when this is dropped"]
pub struct Entered {}

#[cfg(test)]
mod tests {
    use super::*;

    /// What can be computed by the compiler leaves no code behind.
    const NOTHING: (bool, usize) = {
        reach("x");
        (fails("x"), size_of::<Current>() + size_of::<Entered>())
    };

    #[test]
    fn nothing_is_left() {
        assert_eq!(NOTHING, (false, 0));
        let _entered = current().enter();
    }
}
