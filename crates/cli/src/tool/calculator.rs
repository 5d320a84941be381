//! `calculator`: evaluates arithmetic with its own small parser.
//!
//! Invariant: the length and the nesting of an expression are bounded before anything is evaluated, so no input can exhaust the
//! stack or the time of a call.

use provost_tool::{EffectClass, FnTool, SpecError, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

/// Bytes of an expression.
const EXPRESSION_BYTES_MAX: usize = 1000;
/// Parentheses, signs and powers inside each other.
const DEPTH_MAX: u32 = 64;

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// Arithmetic with + - * / ^ and parentheses, such as (2 + 3) * 4.
    expression: String,
}

/// The tool.
pub(crate) fn tool() -> Result<FnTool, SpecError> {
    let describe = "Evaluates an arithmetic expression with + - * / ^ and parentheses.";
    let tool = tool_fn("calculator", describe, |_cx, arguments: Arguments| async move {
        match evaluate(&arguments.expression) {
            Ok(value) => Ok(show(value)),
            Err(problem) => Err(ToolError::Retry(problem)),
        }
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure)))
}

/// The value of an expression, or a sentence that says what is wrong with it.
pub(crate) fn evaluate(expression: &str) -> Result<f64, String> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(format!("the expression is longer than {EXPRESSION_BYTES_MAX} bytes"));
    }
    let mut parser = Parser { text: expression, place: 0, depth: 0 };
    let value = parser.sum()?;
    match parser.peek() {
        None if value.is_finite() => Ok(value),
        None => Err("the result is too large".to_owned()),
        Some(other) => Err(format!("unexpected `{other}` at position {}", parser.place + 1)),
    }
}

/// A number as a person would write it: whole numbers without a point, others without rounding noise.
pub(crate) fn show(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e15 {
        // Adding zero turns -0 into 0.
        return format!("{:.0}", value + 0.0);
    }
    if value.abs() >= 1e15 || value.abs() < 1e-6 {
        return format!("{value:e}");
    }
    let text = format!("{value:.10}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Recursive descent: sum, product, sign, power, atom.
struct Parser<'a> {
    text: &'a str,
    place: usize,
    depth: u32,
}

impl Parser<'_> {
    fn sum(&mut self) -> Result<f64, String> {
        self.deeper()?;
        let mut value = self.product()?;
        while let Some(sign) = self.take(&['+', '-']) {
            let right = self.product()?;
            value = if sign == '+' { value + right } else { value - right };
        }
        self.depth -= 1;
        Ok(value)
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.signed()?;
        while let Some(sign) = self.take(&['*', '×', '/', '÷']) {
            let right = self.signed()?;
            if matches!(sign, '*' | '×') {
                value *= right;
            } else if right == 0.0 {
                return Err("division by zero".to_owned());
            } else {
                value /= right;
            }
        }
        Ok(value)
    }

    fn signed(&mut self) -> Result<f64, String> {
        self.deeper()?;
        let value = match self.take(&['-', '+']) {
            Some('-') => -self.signed()?,
            Some(_) => self.signed()?,
            None => self.power()?,
        };
        self.depth -= 1;
        Ok(value)
    }

    /// Binds to the right: 2 ^ 3 ^ 2 is 2 ^ 9.
    fn power(&mut self) -> Result<f64, String> {
        let value = self.atom()?;
        match self.take(&['^']) {
            Some(_) => Ok(value.powf(self.signed()?)),
            None => Ok(value),
        }
    }

    fn atom(&mut self) -> Result<f64, String> {
        if self.take(&['(']).is_some() {
            let value = self.sum()?;
            return match self.take(&[')']) {
                Some(_) => Ok(value),
                None => Err("a closing parenthesis is missing".to_owned()),
            };
        }
        self.peek();
        let rest = &self.text[self.place..];
        let length = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let digits = &rest[..length];
        if digits.is_empty() {
            return Err(match rest.chars().next() {
                None => "the expression ends where a number is expected".to_owned(),
                Some(other) => {
                    format!("a number is expected at position {}, not `{other}`", self.place + 1)
                }
            });
        }
        self.place += length;
        digits.parse().map_err(|error| format!("`{digits}` is not a number: {error}"))
    }

    /// The next character that is not a space.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.place..];
        let trimmed = rest.trim_start();
        self.place += rest.len() - trimmed.len();
        trimmed.chars().next()
    }

    fn take(&mut self, wanted: &[char]) -> Option<char> {
        let next = self.peek().filter(|next| wanted.contains(next))?;
        self.place += next.len_utf8();
        Some(next)
    }

    fn deeper(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("the expression is nested deeper than {DEPTH_MAX} levels"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precedence_is_the_usual_one() {
        for (expression, value) in [
            ("1 + 2 * 3", "7"),
            ("(1 + 2) * 3", "9"),
            ("2 ^ 3 ^ 2", "512"),
            ("-2 ^ 2", "-4"),
            ("2 ^ -1", "0.5"),
            ("10 - 4 - 3", "3"),
            ("8 / 4 / 2", "1"),
            ("--3", "3"),
            ("6×7÷2", "21"),
            ("0.1 + 0.2", "0.3"),
            (".5*4", "2"),
            ("0 * -1", "0"),
            ("2^100", "1.2676506002282294e30"),
        ] {
            let result = evaluate(expression).map(show);
            assert_eq!(result.as_deref(), Ok(value), "{expression}");
        }
    }

    #[test]
    fn wrong_expressions_are_refused_with_a_reason() {
        for (expression, reason) in [
            ("", "ends where a number"),
            ("1 +", "ends where a number"),
            ("1 / 0", "division by zero"),
            ("1 / (2 - 2)", "division by zero"),
            ("(1", "closing parenthesis"),
            ("1)", "unexpected `)`"),
            ("1.2.3", "not a number"),
            ("2 x", "unexpected `x`"),
            ("rm -rf", "number is expected at position 1"),
            ("9^9^9^9", "too large"),
            ("(0-8)^0.5", "too large"),
        ] {
            let error = evaluate(expression).unwrap_err();
            assert!(error.contains(reason), "{expression}: {error}");
        }
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let deep = format!("{}1{}", "(".repeat(400), ")".repeat(400));
        assert!(evaluate(&deep).unwrap_err().contains("nested"));
        assert!(evaluate(&"-".repeat(900)).unwrap_err().contains("nested"));
        assert!(evaluate(&format!("1{}", "^1".repeat(400))).unwrap_err().contains("nested"));
        assert!(evaluate(&"1+".repeat(600)).unwrap_err().contains("longer"));
    }
}
