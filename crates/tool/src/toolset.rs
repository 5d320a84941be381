//! Toolsets: sources of tools that are listed again before each model call.
//!
//! A toolset is listed once per turn. The model is offered the listed tools, and only those can run. Toolsets that can
//! change within a turn check a tool again when it is called, so that a tool that was removed or hidden after the offer
//! does not run.

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

pub use self::approval::{ApprovalRequiredToolset, ConditionalApprovalToolset};
pub use self::composite::CombinedToolset;
pub use self::dynamic::{FnToolset, MutableToolset, toolset_fn};
pub use self::error::ToolsetError;
pub use self::ext::ToolsetExt;
pub use self::filter::FilteredToolset;
pub use self::fixed::StaticToolset;
pub use self::rename::{PrefixedToolset, RenamedToolset};
pub use self::search::SearchToolset;

/// Maximum number of tools of a mutable or a searched toolset.
const TOOLS_MAX: usize = 10_000;

/// Future of the tools of a toolset.
pub type ToolsetFuture<'a> = BoxFuture<'a, Result<Vec<Arc<dyn Tool>>, ToolError>>;

/// A source of tools, listed once per turn.
///
/// If two tools have the same name, the first one is offered, and the run emits a warning about the other. A toolset
/// that fails is skipped for the turn, also with a warning. [`ToolsetExt`] has adapters that derive one toolset from
/// another.
pub trait Toolset: Send + Sync + 'static {
    /// Returns the name of the toolset, for messages.
    fn name(&self) -> &str;

    /// Returns the tools for this turn. An error means that the turn has none of them.
    fn tools<'a>(&'a self, cx: &'a RunContext) -> ToolsetFuture<'a>;
}

/// A shared toolset.
impl<T: Toolset + ?Sized> Toolset for Arc<T> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn tools<'a>(&'a self, cx: &'a RunContext) -> ToolsetFuture<'a> {
        (**self).tools(cx)
    }
}
