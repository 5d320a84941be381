//! Failpoints without the feature `enabled`: constant functions that do nothing.
//!
//! `Scenario` does not exist here, so a test that needs it fails to compile instead of passing without effect.

/// Does nothing.
#[inline(always)]
pub const fn reach(_name: &'static str) {}

/// Never fails.
#[inline(always)]
pub const fn fails(_name: &'static str) -> bool {
    false
}

/// Returns the scenario of this thread, which is always none.
#[inline(always)]
pub const fn current() -> ScenarioHandle {
    ScenarioHandle {}
}

/// Scenario of a thread, which is always none.
#[derive(Debug, Clone)]
pub struct ScenarioHandle {}

impl ScenarioHandle {
    /// Does nothing.
    #[inline(always)]
    pub const fn enter(&self) -> ScenarioGuard {
        ScenarioGuard {}
    }
}

/// Guard of a scenario. Has no effect.
#[derive(Debug)]
#[must_use = "the thread leaves the scenario when this is dropped"]
pub struct ScenarioGuard {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The compiler evaluates these calls, so they leave no code.
    const EVALUATED: (bool, usize) = {
        reach("x");
        (fails("x"), size_of::<ScenarioHandle>() + size_of::<ScenarioGuard>())
    };

    #[test]
    fn nothing_is_left() {
        assert_eq!(EVALUATED, (false, 0));
        let _entered = current().enter();
    }
}
