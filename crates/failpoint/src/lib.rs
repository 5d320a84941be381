//! Places where a test can stop the process.
//!
//! A place is one line: `failpoint!("accept.committed")`. Without the feature `enabled` it is an empty constant
//! function, so a release binary contains nothing of it. With the feature, which only tests turn on, two environment
//! variables decide; both are read once, at the first place that is reached:
//!
//! - `PROVOST_FAILPOINTS` holds rules, `name=action[@n];name=action[@n];…`:
//!
//!   | action | effect |
//!   | --- | --- |
//!   | `kill` | SIGKILL to itself |
//!   | `freeze` | SIGSTOP to itself; SIGCONT goes on from here |
//!   | `exit` | ends with exit code 86 (`EXIT_CODE`) |
//!   | `pause:<path>` | blocks the thread until the file exists |
//!   | `panic` | panics |
//!   | `error` | leaves the function with the value given to `failpoint!("name", value)` |
//!
//!   `@n` names the hit at which it happens (`@1`, the first, is the default), `@n+` that hit and all later ones.
//!   Rules that cannot be read end the process with exit code 87 (`MISUSE_CODE`) and a message.
//! - `PROVOST_FAILPOINTS_TRACE` is a file to which each name is appended once, before anything happens there.
//!
//! Tests inside one process use a `Scenario` instead, which holds for the threads that entered it and for no others.
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
pub use plan::{Action, When};
#[cfg(feature = "enabled")]
pub use scenario::{Current, Entered, Scenario, current};

#[cfg(not(feature = "enabled"))]
pub use off::{Current, Entered, current};

#[cfg(feature = "enabled")]
#[doc(hidden)]
pub use live::{fails, reach};
#[cfg(not(feature = "enabled"))]
#[doc(hidden)]
pub use off::{fails, reach};

/// Marks a place where a test can stop the process.
///
/// `failpoint!("name")` only stops; `failpoint!("name", value)` can also leave the surrounding function, closure or
/// async block with `value`, which is computed only then.
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
