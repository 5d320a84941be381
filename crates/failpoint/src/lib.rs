//! Failpoints: named places in the code where a test can stop the process.
//!
//! A failpoint is one line: `failpoint!("accept.committed")`. Without the feature `enabled` it is an empty constant
//! function, so a release binary contains nothing of it. With the feature, which only tests enable, two environment
//! variables control it. Both are read once, when the first failpoint is reached:
//!
//! - `PROVOST_FAILPOINTS` contains rules, `name=action[@n];name=action[@n];…`:
//!
//!   | action | effect |
//!   | --- | --- |
//!   | `kill` | SIGKILL to the own process |
//!   | `freeze` | SIGSTOP to the own process; SIGCONT continues at the failpoint |
//!   | `exit` | ends with exit code 86 (`EXIT_CODE`) |
//!   | `pause:<path>` | blocks the thread until the file exists |
//!   | `panic` | panics |
//!   | `error` | leaves the function with the value given to `failpoint!("name", value)` |
//!
//!   `@n` selects the hit of the failpoint (`@1`, the first hit, is the default), `@n+` that hit and all later ones.
//!   Invalid rules end the process with exit code 87 (`MISUSE_CODE`) and a message.
//! - `PROVOST_FAILPOINTS_TRACE` names a file. Each failpoint appends its name once, before its action.
//!
//! Tests inside one process use a `Scenario` instead, which applies only to the threads that entered it.
//!
//! ```
//! use provost_failpoint::{Action, Scenario, failpoint};
//!
//! fn commit() -> Result<(), &'static str> {
//!     failpoint!("doc.commit", Err("the disk is full"));
//!     Ok(())
//! }
//!
//! let scenario = Scenario::new();
//! let _entered = scenario.enter();
//! scenario.set("doc.commit", Action::Error);
//! assert_eq!(commit(), Err("the disk is full"));
//! assert_eq!(commit(), Ok(()));
//! ```

#[cfg(feature = "enabled")]
mod live;
#[cfg(any(not(feature = "enabled"), test))]
#[cfg_attr(feature = "enabled", expect(unreachable_pub, reason = "built for its own test only"))]
mod off;
#[cfg(feature = "enabled")]
mod plan;
#[cfg(feature = "enabled")]
mod scenario;

#[cfg(feature = "enabled")]
pub use live::{EXIT_CODE, MISUSE_CODE, reached};
#[cfg(feature = "enabled")]
pub use plan::{Action, HitCondition};
#[cfg(feature = "enabled")]
pub use scenario::{Scenario, ScenarioGuard, ScenarioHandle, current};

#[cfg(not(feature = "enabled"))]
pub use off::{ScenarioGuard, ScenarioHandle, current};

#[cfg(feature = "enabled")]
#[doc(hidden)]
pub use live::{fails, reach};
#[cfg(not(feature = "enabled"))]
#[doc(hidden)]
pub use off::{fails, reach};

/// Marks a failpoint.
///
/// `failpoint!("name")` can only stop the process. `failpoint!("name", value)` can also leave the surrounding function,
/// closure or async block with `value`, which is evaluated only then.
#[macro_export]
macro_rules! failpoint {
    ($name:literal) => {
        $crate::reach($name)
    };
    ($name:literal, $value:expr) => {
        if $crate::fails($name) {
            return $value;
        }
    };
}
