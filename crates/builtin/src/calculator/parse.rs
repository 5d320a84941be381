//! Parser of expressions by recursive descent: sum, product, sign, power, atom.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;

use super::number::Number;
use crate::limits::{EXPRESSION_BYTES_MAX, EXPRESSION_DEPTH_MAX};

/// Maximum power of ten of a literal, and maximum number of decimal places for rounding.
const PLACES_MAX: u32 = 1_000;

type Result<T> = std::result::Result<T, String>;

/// Evaluates an expression. Returns a message for the model if it is invalid.
pub(super) fn evaluate(expression: &str) -> Result<Number> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(format!("the expression is longer than {EXPRESSION_BYTES_MAX} bytes"));
    }
    let mut parser = Parser { text: expression, position: 0, depth: 0 };
    let value = parser.sum()?;
    match parser.peek() {
        None => Ok(value),
        Some(other) => Err(format!("unexpected `{other}` at position {}", parser.position + 1)),
    }
}

/// Text with the current position and nesting depth.
struct Parser<'a> {
    text: &'a str,
    position: usize,
    depth: u32,
}

impl Parser<'_> {
    /// Parses terms joined by `+` and `-`.
    fn sum(&mut self) -> Result<Number> {
        self.enter_level()?;
        let mut value = self.product()?;
        while let Some(sign) = self.take(&['+', '-', '−']) {
            let right = self.product()?;
            value = if sign == '+' { value.add(&right)? } else { value.subtract(&right)? };
        }
        self.depth -= 1;
        Ok(value)
    }

    /// Parses factors joined by `*`, `/` and `%`.
    fn product(&mut self) -> Result<Number> {
        let mut value = self.signed()?;
        while let Some(sign) = self.take(&['*', '×', '·', '/', '÷', '%']) {
            let right = self.signed()?;
            value = match sign {
                '/' | '÷' => value.divide(&right)?,
                '%' => value.remainder(&right)?,
                _ => value.multiply(&right)?,
            };
        }
        Ok(value)
    }

    /// Parses a factor with its signs.
    fn signed(&mut self) -> Result<Number> {
        self.enter_level()?;
        let value = match self.take(&['-', '−', '+']) {
            Some('+') => self.signed()?,
            Some(_) => self.signed()?.negate(),
            None => self.power()?,
        };
        self.depth -= 1;
        Ok(value)
    }

    /// Parses a power. It is right-associative: 2 ^ 3 ^ 2 is 2 ^ 9. `**` is the same operator.
    fn power(&mut self) -> Result<Number> {
        let value = self.atom()?;
        self.peek();
        if self.text[self.position..].starts_with("**") {
            self.position += 2;
        } else if self.take(&['^']).is_none() {
            return Ok(value);
        }
        value.power(&self.signed()?)
    }

    /// Parses a number, a constant, a function call or an expression in parentheses.
    fn atom(&mut self) -> Result<Number> {
        if self.take(&['(']).is_some() {
            let value = self.sum()?;
            self.expect_close()?;
            return Ok(value);
        }
        match self.peek() {
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_ascii_alphabetic() || c == 'π' => self.word(),
            Some(other) => Err(format!(
                "a number is expected at position {}, not `{other}`",
                self.position + 1
            )),
            None => Err("the expression ends where a number is expected".to_owned()),
        }
    }

    /// Parses a closing parenthesis.
    fn expect_close(&mut self) -> Result<()> {
        match self.take(&[')']) {
            Some(_) => Ok(()),
            None => Err("a closing parenthesis is missing".to_owned()),
        }
    }

    /// Parses a number literal.
    fn number(&mut self) -> Result<Number> {
        let rest = &self.text[self.position..];
        let is_part = |c: char| c.is_ascii_digit() || c == '.' || c == '_';
        let mut length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let mantissa = &rest[..length];
        let mut exponent = 0;
        if let Some((digits, used)) = scientific(&rest[length..]) {
            exponent = digits;
            length += used;
        }
        let invalid = || format!("`{}` is not a number", &rest[..length]);
        let plain: String = mantissa.chars().filter(|c| *c != '_').collect();
        let (whole, part) = plain.split_once('.').unwrap_or((&plain, ""));
        if part.contains('.') || (whole.is_empty() && part.is_empty()) {
            return Err(invalid());
        }
        self.position += length;
        let digits = format!("{whole}{part}");
        let value = BigInt::parse_bytes(digits.as_bytes(), 10).ok_or_else(invalid)?;
        let shift = exponent - i64::try_from(part.len()).unwrap_or(0);
        if value.is_zero() {
            return Ok(Number::Rational(BigRational::zero()));
        }
        let places = u32::try_from(shift.unsigned_abs()).unwrap_or(u32::MAX);
        if places > PLACES_MAX {
            return Err(format!("`{}` has too many digits", &rest[..length.min(40)]));
        }
        let scale = BigRational::from(BigInt::from(10).pow(places));
        let value = BigRational::from(value);
        Number::from_rational(if shift < 0 { value / scale } else { value * scale })
    }

    /// Parses a constant or a function call.
    fn word(&mut self) -> Result<Number> {
        let rest = &self.text[self.position..];
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == 'π';
        let length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let name = rest[..length].to_ascii_lowercase();
        self.position += length;
        match name.as_str() {
            "pi" | "π" => return Number::from_float(std::f64::consts::PI),
            "e" => return Number::from_float(std::f64::consts::E),
            _ => {}
        }
        if self.take(&['(']).is_none() {
            return Err(format!("`{name}` is neither a number nor a function"));
        }
        let mut arguments = vec![self.sum()?];
        while self.take(&[',', ';']).is_some() {
            arguments.push(self.sum()?);
        }
        self.expect_close()?;
        call_function(&name, &arguments)
    }

    /// Skips white space, and returns the next character. `None` at the end.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.position..];
        let trimmed = rest.trim_start();
        self.position += rest.len() - trimmed.len();
        trimmed.chars().next()
    }

    /// Parses one of the expected characters. `None` if another one follows.
    fn take(&mut self, expected: &[char]) -> Option<char> {
        let next = self.peek().filter(|next| expected.contains(next))?;
        self.position += next.len_utf8();
        Some(next)
    }

    /// Increments the depth. Returns a message if the expression is nested too deeply.
    fn enter_level(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > EXPRESSION_DEPTH_MAX {
            return Err(format!(
                "the expression is nested deeper than {EXPRESSION_DEPTH_MAX} levels"
            ));
        }
        Ok(())
    }
}

/// Parses an exponent as in 1e-5. Returns its value and length. `None` if there is none.
fn scientific(text: &str) -> Option<(i64, usize)> {
    let after = text.strip_prefix(['e', 'E'])?;
    let unsigned = after.strip_prefix(['+', '-']).unwrap_or(after);
    let length = unsigned.find(|c: char| !c.is_ascii_digit()).unwrap_or(unsigned.len());
    let end = text.len() - unsigned.len() + length;
    // Digits that do not fit exceed every limit.
    let exponent = text[1..end].parse().unwrap_or(i64::from(i32::MAX));
    (length > 0).then_some((exponent, end))
}

/// Applies a function. Returns a message if it is unknown or takes another number of arguments.
fn call_function(name: &str, arguments: &[Number]) -> Result<Number> {
    match (name, arguments) {
        ("round", [value, places]) => {
            let places = places.to_integer_up_to(PLACES_MAX);
            value.round(places.ok_or_else(|| format!("round takes 0 to {PLACES_MAX} places"))?)
        }
        ("min", [first, rest @ ..]) => {
            Ok(rest.iter().fold(first, |a, b| if b.is_less(a) { b } else { a }).clone())
        }
        ("max", [first, rest @ ..]) => {
            Ok(rest.iter().fold(first, |a, b| if a.is_less(b) { b } else { a }).clone())
        }
        (name, [value]) => call_unary(name, value),
        (name, _) => Err(format!("`{name}` does not take {} numbers", arguments.len())),
    }
}

/// Applies a function of one number. Returns a message if it is unknown or not defined for the number.
fn call_unary(name: &str, value: &Number) -> Result<Number> {
    let logarithm = |log: fn(f64) -> f64| match value.to_float() {
        float if float > 0.0 => Number::from_float(log(float)),
        _ => Err("the logarithm needs a positive number".to_owned()),
    };
    match name {
        "sqrt" => value.root(),
        "abs" => Ok(value.absolute()),
        "round" => value.round(0),
        "floor" => Ok(value.floor()),
        "ceil" => Ok(value.ceil()),
        "ln" => logarithm(f64::ln),
        "log" | "log10" => logarithm(f64::log10),
        "log2" => logarithm(f64::log2),
        "exp" => Number::from_float(value.to_float().exp()),
        "sin" => Number::from_float(value.to_float().sin()),
        "cos" => Number::from_float(value.to_float().cos()),
        "tan" => Number::from_float(value.to_float().tan()),
        _ => Err(format!("there is no function `{name}`")),
    }
}
