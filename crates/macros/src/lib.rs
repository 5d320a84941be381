//! `#[tool]`: a tool from a function, or a set of tools from the methods of a type.
//!
//! The macro reads names, types and doc comments, and writes what a person would write by hand: a struct of the arguments, a
//! specification, and a `Tool` that parses the one and calls the function. It decides nothing at run time.

mod block;
mod definition;
mod emit;
mod faults;
mod function;
mod input;
mod options;

use proc_macro::TokenStream;
use proc_macro2::Span;
use syn::Item;

/// Makes a tool of a function, or tools of the methods of an `impl` block.
///
/// # On a function
///
/// ```ignore
/// use provost::{Dep, ToolCx, ToolError, tool};
///
/// /// Current weather for a city.
/// #[tool(timeout = "20s", retries = 2)]
/// async fn get_weather(
///     cx: &ToolCx,
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
/// The doc comment is what the model is told about the tool; the doc comments of the arguments describe them in the schema.
/// `ToolCx` (by reference or by value) and any number of `Dep<T>` are filled in from the run and are not part of the schema; they
/// are known by these names, so do not rename them on import.
/// Every other argument needs `serde::Deserialize` and `schemars::JsonSchema`; `Option<T>` may be left out by the model.
/// Arguments the schema does not name are refused.
/// The function returns anything serializable, a `ToolOutput`, or a `Result` of these with an error that converts into
/// `ToolError`.
/// It may be sync if it does not block.
///
/// The name becomes a unit struct that implements `Tool`: pass it by value, or as an `Arc<dyn Tool>` with `get_weather.tool()`.
/// The function itself stays callable, for tests above all, as `get_weather::call(..)`.
///
/// ## Options
///
/// | option | meaning | default |
/// |---|---|---|
/// | `name = "get_weather"` | what the model calls it | the function's name |
/// | `description = ".."` | what the model is told; any expression that converts into a `String` | the doc comment |
/// | `timeout = "20s"` | longest time for one call: a whole number of `ms`, `s`, `m` or `h` | 60 s |
/// | `retries = 2` | wrong arguments accepted per run | 3 |
/// | `approval = ..` | `"always"`, `"never"`, or a function or closure over `&serde_json::Value` that returns true if a person must be asked | `"never"` |
/// | `effect = "pure"` | what repeating a call does: `"pure"`, `"idempotent"`, `"keyed"`, `"provable"`, `"transactional"` or `"opaque"`; decides what happens to a call that a crash cut off | `"opaque"` |
/// | `exclusive` | no other call of the turn runs at the same time | |
/// | `crate = "path"` | where `provost` is found, if not at `::provost` | |
///
/// An argument takes `#[tool(default)]` or `#[tool(default = expression)]`; `#[serde(..)]` and `#[schemars(..)]` attributes on it
/// are passed on to the struct of the arguments.
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
/// Every method that takes `&self` is a tool, whatever its visibility, unless `#[tool(skip)]` says otherwise; functions without
/// `self` are left alone. A method takes the options of a function except `crate`, which belongs on the block.
/// The block gives the type two methods: `tools(self: &Arc<Self>)` and `into_tools(self)`, both
/// `-> Vec<Arc<dyn Tool>>`, in the order of the source.
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
