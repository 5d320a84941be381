//! Groups of tools that may change from turn to turn.
//!
//! A set is asked once per turn. What it gives is what the model is offered, and only what was offered can run. A set that
//! can change its mind within a turn (a filter, tools that are removed) looks once more when a call is about to run, so what
//! is hidden between the offer and the call does not run either.

mod approval;
mod composite;
mod dynamic;
mod error;
mod ext;
mod filter;
mod fixed;
mod rename;
mod respec;
mod search;

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::{RunContext, Tool, ToolError};

pub use self::approval::{ApprovalTools, ConfirmedTools};
pub use self::composite::CompositeTools;
pub use self::dynamic::{DynamicTools, FnTools, toolset_fn};
pub use self::error::ToolsetError;
pub use self::ext::ToolsetExt;
pub use self::filter::FilteredTools;
pub use self::fixed::StaticTools;
pub use self::rename::{PrefixedTools, RenamedTools};
pub use self::search::SearchableTools;

/// Tools that a set which grows while a program runs, or which is searched, may have.
const TOOLS_MAX: usize = 10_000;

/// The tools a toolset offers now.
pub type ToolsetFuture<'a> = BoxFuture<'a, Result<Vec<Arc<dyn Tool>>, ToolError>>;

/// A group of tools, asked once per turn: what the model is offered is what can run.
///
/// Of two tools with one name the first is offered; the second is left out, and the run says so in a warning. A set that
/// fails is left out for the turn, with a warning as well. [`ToolsetExt`] has the ways to make one set of another.
pub trait Toolset: Send + Sync + 'static {
    /// For messages to people.
    fn name(&self) -> &str;

    /// The tools for this turn.
    fn tools<'a>(&'a self, cx: &'a RunContext) -> ToolsetFuture<'a>;
}

/// A set that several owners share.
impl<T: Toolset + ?Sized> Toolset for Arc<T> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn tools<'a>(&'a self, cx: &'a RunContext) -> ToolsetFuture<'a> {
        (**self).tools(cx)
    }
}
