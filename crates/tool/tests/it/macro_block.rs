//! `#[tool]` on impl blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use provost_macros::tool;
use provost_tool::{Dep, Deps, Guard, GuardDecision, Tool, ToolContext, ToolError};
use serde_json::{Value, json};

use crate::support;

#[derive(Default)]
struct Calculator {
    used: AtomicU32,
}

struct Rounding(i32);

#[tool(crate = "crate::facade")]
impl Calculator {
    const ZERO: f64 = 0.0;

    fn new() -> Self {
        Self::default()
    }

    /// Adds two numbers.
    async fn add(&self, a: f64, #[tool(default = 0.5)] b: f64) -> f64 {
        self.note();
        a + b
    }

    /// Divides.
    #[tool(name = "divide", timeout = "1s", retries = 0, exclusive, approval = Self::is_odd)]
    fn div(
        &self,
        cx: &ToolContext,
        rounding: Dep<Rounding>,
        a: f64,
        b: f64,
    ) -> Result<f64, ToolError> {
        self.note();
        cx.progress("dividing");
        if b == Self::ZERO {
            return Err(ToolError::retry("not by zero"));
        }
        let unit = 10f64.powi(rounding.0);
        Ok((a / b * unit).round() / unit)
    }

    #[cfg(any())]
    /// Is not compiled, so neither is its tool.
    async fn absent(&self, what: DoesNotExist) {}

    #[tool(skip)]
    fn note(&self) {
        self.used.fetch_add(1, Ordering::SeqCst);
    }

    fn is_odd(arguments: &Value) -> bool {
        arguments["a"].as_f64() == Some(13.0)
    }
}

fn names(tools: &[Arc<dyn Tool>]) -> Vec<&str> {
    tools.iter().map(|tool| tool.spec().name()).collect()
}

#[test]
fn every_method_with_a_shared_self_is_a_tool_in_order() {
    let tools = Calculator::new().into_tools();
    assert_eq!(names(&tools), ["add", "divide"]);
    let spec = tools[1].spec();
    assert_eq!(spec.def().description, "Divides.");
    assert_eq!(spec.timeout, Duration::from_secs(1));
    assert_eq!((spec.retries, spec.exclusive), (0, true));
    assert_eq!(spec.deps.len(), 1);
    assert_eq!(
        tools[0].spec().def().input_schema.to_string(),
        r#"{"type":"object","additionalProperties":false,"properties":{"a":{"type":"number","format":"double"},"b":{"type":"number","format":"double","default":0.5}},"required":["a"]}"#
    );
}

#[tokio::test]
async fn tools_share_the_value() {
    let calculator = Arc::new(Calculator::new());
    let tools = calculator.tools();
    let approver = support::FakeApprover::approving();
    let cx = support::cx_with(approver, Deps::default().with(Rounding(2)));
    let sum = support::run(&tools[0], cx.clone(), json!({"a": 1.0})).await;
    assert_eq!(sum.unwrap().to_text(), "1.5");
    let third = support::run(&tools[1], cx.clone(), json!({"a": 1.0, "b": 3.0})).await;
    assert_eq!(third.unwrap().to_text(), "0.33");
    let error = support::run(&tools[1], cx, json!({"a": 1.0, "b": 0.0})).await;
    assert_eq!(error.unwrap_err(), ToolError::retry("not by zero"));
    assert_eq!(calculator.used.load(Ordering::SeqCst), 3);
}

#[test]
fn approval_may_be_a_function_of_the_type() {
    let tool = &Calculator::new().into_tools()[1];
    let call = support::call(tool, &json!({"a": 13.0, "b": 1.0}));
    assert!(matches!(Guard::default().check(tool, &call, false), GuardDecision::Ask(_)));
}

#[tokio::test]
async fn methods_stay_methods() {
    assert_eq!(Calculator::new().add(1.0, 2.0).await, 3.0);
}
