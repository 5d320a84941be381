//! Tools that are defined by closures.

use std::sync::Arc;

use futures::FutureExt;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::{
    IntoToolOutput, Permit, Tool, ToolContext, ToolError, ToolFuture, ToolSpec, ToolSpecError,
};

type Body = dyn Fn(Permit, ToolContext) -> ToolFuture + Send + Sync;

/// A tool whose body is a function. Use [`tool_fn`] to create one.
#[derive(Clone)]
pub struct FnTool {
    spec: ToolSpec,
    body: Arc<Body>,
}

impl FnTool {
    /// Creates a tool from a specification and a body that parses the permit. Macros and wrappers use it.
    pub fn new(
        spec: ToolSpec,
        body: impl Fn(Permit, ToolContext) -> ToolFuture + Send + Sync + 'static,
    ) -> Self {
        Self { spec, body: Arc::new(body) }
    }

    /// Replaces the specification of the tool by the result of `change`.
    #[must_use]
    pub fn with_spec(mut self, change: impl FnOnce(ToolSpec) -> ToolSpec) -> Self {
        self.spec = change(self.spec);
        self
    }
}

impl Tool for FnTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, permit: Permit, cx: ToolContext) -> ToolFuture {
        (self.body)(permit, cx)
    }
}

/// Creates a tool from an async closure over typed arguments.
///
/// ```
/// use provost_tool::{ToolError, tool_fn};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add { a: i64, b: i64 }
///
/// let add = tool_fn("add", "Adds two numbers", |_cx, args: Add| async move {
///     Ok::<_, ToolError>(args.a + args.b)
/// })?;
/// # Ok::<_, provost_tool::ToolSpecError>(())
/// ```
pub fn tool_fn<A, R, F, Fut>(
    name: impl Into<String>,
    description: impl Into<String>,
    body: F,
) -> Result<FnTool, ToolSpecError>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    R: IntoToolOutput,
    F: Fn(ToolContext, A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
{
    let spec = ToolSpec::typed::<A>(name, description)?;
    Ok(FnTool::new(spec, move |permit, cx| match permit.parse::<A>() {
        Ok(arguments) => {
            let running = body(cx, arguments);
            async move { running.await.map(IntoToolOutput::into_tool_output) }.boxed()
        }
        Err(error) => std::future::ready(Err(error)).boxed(),
    }))
}
