//! Expressions, by recursive descent: sum, product, sign, power, atom.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;

use super::number::Number;
use crate::limits::{EXPRESSION_BYTES_MAX, EXPRESSION_DEPTH_MAX};

/// Powers of ten in a number as it is written, and places behind the point to round to.
const PLACES_MAX: u32 = 1_000;

type Result<T> = std::result::Result<T, String>;

/// The value of an expression.
pub(super) fn evaluate(expression: &str) -> Result<Number> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(format!("the expression is longer than {EXPRESSION_BYTES_MAX} bytes"));
    }
    let mut parser = Parser { text: expression, place: 0, depth: 0 };
    let value = parser.sum()?;
    match parser.peek() {
        None => Ok(value),
        Some(other) => Err(format!("unexpected `{other}` at position {}", parser.place + 1)),
    }
}

struct Parser<'a> {
    text: &'a str,
    place: usize,
    depth: u32,
}

impl Parser<'_> {
    fn sum(&mut self) -> Result<Number> {
        self.deeper()?;
        let mut value = self.product()?;
        while let Some(sign) = self.take(&['+', '-', '−']) {
            let right = self.product()?;
            value = if sign == '+' { value.add(&right)? } else { value.subtract(&right)? };
        }
        self.depth -= 1;
        Ok(value)
    }

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

    fn signed(&mut self) -> Result<Number> {
        self.deeper()?;
        let value = match self.take(&['-', '−', '+']) {
            Some('+') => self.signed()?,
            Some(_) => self.signed()?.negate(),
            None => self.power()?,
        };
        self.depth -= 1;
        Ok(value)
    }

    /// Binds to the right: 2 ^ 3 ^ 2 is 2 ^ 9. Two stars are the same.
    fn power(&mut self) -> Result<Number> {
        let value = self.atom()?;
        self.peek();
        if self.text[self.place..].starts_with("**") {
            self.place += 2;
        } else if self.take(&['^']).is_none() {
            return Ok(value);
        }
        value.power(&self.signed()?)
    }

    fn atom(&mut self) -> Result<Number> {
        if self.take(&['(']).is_some() {
            let value = self.sum()?;
            self.close()?;
            return Ok(value);
        }
        match self.peek() {
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_ascii_alphabetic() || c == 'π' => self.word(),
            Some(other) => {
                Err(format!("a number is expected at position {}, not `{other}`", self.place + 1))
            }
            None => Err("the expression ends where a number is expected".to_owned()),
        }
    }

    fn close(&mut self) -> Result<()> {
        match self.take(&[')']) {
            Some(_) => Ok(()),
            None => Err("a closing parenthesis is missing".to_owned()),
        }
    }

    fn number(&mut self) -> Result<Number> {
        let rest = &self.text[self.place..];
        let is_part = |c: char| c.is_ascii_digit() || c == '.' || c == '_';
        let mut length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let mantissa = &rest[..length];
        let mut exponent = 0;
        if let Some((digits, used)) = scientific(&rest[length..]) {
            exponent = digits;
            length += used;
        }
        let wrong = || format!("`{}` is not a number", &rest[..length]);
        let plain: String = mantissa.chars().filter(|c| *c != '_').collect();
        let (whole, part) = plain.split_once('.').unwrap_or((&plain, ""));
        if part.contains('.') || (whole.is_empty() && part.is_empty()) {
            return Err(wrong());
        }
        self.place += length;
        let digits = format!("{whole}{part}");
        let value = BigInt::parse_bytes(digits.as_bytes(), 10).ok_or_else(wrong)?;
        let shift = exponent - i64::try_from(part.len()).unwrap_or(0);
        if value.is_zero() {
            return Ok(Number::Exact(BigRational::zero()));
        }
        let places = u32::try_from(shift.unsigned_abs()).unwrap_or(u32::MAX);
        if places > PLACES_MAX {
            return Err(format!("`{}` has too many digits", &rest[..length.min(40)]));
        }
        let scale = BigRational::from(BigInt::from(10).pow(places));
        let value = BigRational::from(value);
        Number::exact(if shift < 0 { value / scale } else { value * scale })
    }

    /// A constant, or a function of what follows in parentheses.
    fn word(&mut self) -> Result<Number> {
        let rest = &self.text[self.place..];
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == 'π';
        let length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let name = rest[..length].to_ascii_lowercase();
        self.place += length;
        match name.as_str() {
            "pi" | "π" => return Number::near(std::f64::consts::PI),
            "e" => return Number::near(std::f64::consts::E),
            _ => {}
        }
        if self.take(&['(']).is_none() {
            return Err(format!("`{name}` is neither a number nor a function"));
        }
        let mut arguments = vec![self.sum()?];
        while self.take(&[',', ';']).is_some() {
            arguments.push(self.sum()?);
        }
        self.close()?;
        call(&name, &arguments)
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

    fn deeper(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > EXPRESSION_DEPTH_MAX {
            return Err(format!(
                "the expression is nested deeper than {EXPRESSION_DEPTH_MAX} levels"
            ));
        }
        Ok(())
    }
}

/// The exponent of a number like 1e-5, and how long it is written.
fn scientific(text: &str) -> Option<(i64, usize)> {
    let after = text.strip_prefix(['e', 'E'])?;
    let unsigned = after.strip_prefix(['+', '-']).unwrap_or(after);
    let length = unsigned.find(|c: char| !c.is_ascii_digit()).unwrap_or(unsigned.len());
    let end = text.len() - unsigned.len() + length;
    // Digits that do not fit are too many in any case.
    let exponent = text[1..end].parse().unwrap_or(i64::from(i32::MAX));
    (length > 0).then_some((exponent, end))
}

fn call(name: &str, arguments: &[Number]) -> Result<Number> {
    match (name, arguments) {
        ("round", [value, places]) => {
            let places = places.whole(PLACES_MAX);
            value.round(places.ok_or_else(|| format!("round takes 0 to {PLACES_MAX} places"))?)
        }
        ("min", [first, rest @ ..]) => {
            Ok(rest.iter().fold(first, |a, b| if b.is_less(a) { b } else { a }).clone())
        }
        ("max", [first, rest @ ..]) => {
            Ok(rest.iter().fold(first, |a, b| if a.is_less(b) { b } else { a }).clone())
        }
        (name, [value]) => call_one(name, value),
        (name, _) => Err(format!("`{name}` does not take {} numbers", arguments.len())),
    }
}

fn call_one(name: &str, value: &Number) -> Result<Number> {
    let logarithm = |log: fn(f64) -> f64| match value.float() {
        float if float > 0.0 => Number::near(log(float)),
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
        "exp" => Number::near(value.float().exp()),
        "sin" => Number::near(value.float().sin()),
        "cos" => Number::near(value.float().cos()),
        "tan" => Number::near(value.float().tan()),
        _ => Err(format!("there is no function `{name}`")),
    }
}
