//! The attribute macro `#[tool]`, which turns a function into a tool, or the methods of a type into a list of tools.
//!
//! The macro reads names, types and doc comments and generates the same code as a handwritten tool: a struct of the
//! arguments, a specification, and a `Tool` that parses the arguments and calls the function. It has no state at run
//! time.

mod block;
mod definition;
mod diagnostics;
mod emit;
mod function;
mod options;
mod param;

use proc_macro::TokenStream;
use proc_macro2::Span;
use syn::Item;

/// Turns a function into a tool, or the methods of an `impl` block into a list of tools.
///
/// # On a function
///
/// ```ignore
/// use provost::{Dep, ToolContext, ToolError, tool};
///
/// /// Current weather for a city.
/// #[tool(timeout = "20s", retries = 2)]
/// async fn get_weather(
///     cx: &ToolContext,
///     weather: Dep<WeatherClient>,
///     /// City name
///     city: String,
///     /// Days ahead
///     #[tool(default = 1)] days: u8,
///     /// Celsius unless given
///     unit: Option<Unit>,
/// ) -> Result<Forecast, ToolError> {
///     cx.progress(format!("asking for {city}"));
///     Ok(weather.forecast(&city, days, unit).await?)
/// }
///
/// let agent = Agent::builder("guide", model).tool(get_weather).build()?;
/// ```
///
/// The doc comment is the description of the tool for the model; the doc comments of the arguments become descriptions
/// in the schema. `ToolContext` (by reference or by value) and any number of `Dep<T>` are filled in by the run and are
/// not part of the schema; the macro recognizes them by name, so do not rename them on import. Every other argument
/// must implement `serde::Deserialize` and `schemars::JsonSchema`; an `Option<T>` is optional. Arguments that are not
/// in the schema are rejected. The function returns any serializable value, a `ToolOutput`, or a `Result` of these
/// whose error converts into `ToolError`. A function that does not block may be synchronous.
///
/// The macro defines a unit struct with the name of the function, which implements `Tool`. Pass it by value, or as an
/// `Arc<dyn Tool>` with `get_weather.tool()`. To call the function itself, for example in tests, use
/// `get_weather::call(..)`.
///
/// ## Options
///
/// | option | meaning | default |
/// |---|---|---|
/// | `name = "get_weather"` | name of the tool | the function's name |
/// | `description = ".."` | description for the model; any expression that converts into a `String` | the doc comment |
/// | `timeout = "20s"` | timeout of one call: a whole number of `ms`, `s`, `m` or `h` | 60 s |
/// | `retries = 2` | calls with invalid arguments that are accepted per run | 3 |
/// | `approval = ..` | `"always"`, `"never"`, or a function or closure over `&serde_json::Value` that returns true if the call needs approval | `"never"` |
/// | `effect = "pure"` | effect class: `"pure"`, `"idempotent"`, `"keyed"`, `"provable"`, `"transactional"` or `"opaque"`; determines how recovery treats a call that a crash interrupted | `"opaque"` |
/// | `exclusive` | no other call of the turn runs at the same time | |
/// | `crate = "path"` | path of the crate `provost` | `::provost` |
///
/// An argument takes `#[tool(default)]` or `#[tool(default = expression)]`. Its `#[serde(..)]` and `#[schemars(..)]`
/// attributes are applied to the struct of the arguments.
///
/// # On an impl block
///
/// ```ignore
/// struct Calculator { precision: u32 }
///
/// #[tool]
/// impl Calculator {
///     /// Adds two numbers.
///     async fn add(&self, a: f64, b: f64) -> f64 {
///         self.round(a + b)
///     }
///
///     #[tool(skip)]
///     fn round(&self, x: f64) -> f64 { /* .. */ }
/// }
///
/// let calculator = Arc::new(Calculator { precision: 2 });
/// let agent = Agent::builder("clerk", model).tools(calculator.tools()).build()?;
/// ```
///
/// Every method with `&self` is a tool, regardless of its visibility, except for methods with `#[tool(skip)]`.
/// Functions without `self` are not changed. A method takes the options of a function except `crate`, which belongs on
/// the block. The block adds two methods to the type, `tools(self: &Arc<Self>)` and `into_tools(self)`. Both return
/// `Vec<Arc<dyn Tool>>` in source order.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    let expanded = match syn::parse::<Item>(item) {
        Ok(Item::Fn(function)) => function::expand(options.into(), function),
        Ok(Item::Impl(block)) => block::expand(options.into(), block),
        Ok(_) => Err(syn::Error::new(
            Span::call_site(),
            "`#[tool]` goes on a function or on an `impl` block",
        )),
        Err(error) => Err(error),
    };
    expanded.unwrap_or_else(syn::Error::into_compile_error).into()
}
