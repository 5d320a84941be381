//! Decimal representation of numbers.

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Signed, Zero};

use super::number::Number;
use crate::limits::NUMBER_DIGITS;

/// Significant digits of a float.
const FLOAT_DIGITS: usize = 15;
/// Maximum length of a fraction that is shown in addition to its decimals, in characters.
const FRACTION_DIGITS_MAX: usize = 20;
/// Maximum number of decimal places of an exact number.
const PLACES_MAX: usize = 1_000;
/// Maximum number of zeros before scientific notation is used.
const ZEROS_MAX: i64 = 6;

/// Formats a number. A rounded number begins with `≈`.
pub(super) fn format_number(number: &Number) -> String {
    match number {
        Number::Rational(value) => format_rational(value),
        Number::Float(value) => format!("≈ {}", format_float(*value)),
    }
}

fn format_rational(value: &BigRational) -> String {
    if let Some(places) = decimal_places(value.denom()) {
        let scaled = value * BigRational::from(BigInt::from(10).pow(places));
        return with_point(&scaled.to_integer(), places as usize);
    }
    let rounded = format_rounded(value);
    let fraction = value.to_string();
    if fraction.len() <= FRACTION_DIGITS_MAX {
        return format!("≈ {rounded} (exactly {fraction})");
    }
    format!("≈ {rounded}")
}

/// Returns the number of decimal places of a fraction with this denominator. `None` if there are infinitely many or too
/// many.
fn decimal_places(denom: &BigInt) -> Option<u32> {
    let mut rest = denom.clone();
    let mut count = |factor: u32| {
        let factor = BigInt::from(factor);
        let mut times = 0usize;
        while times <= PLACES_MAX {
            let (quotient, remainder) = rest.div_rem(&factor);
            if !remainder.is_zero() {
                break;
            }
            rest = quotient;
            times += 1;
        }
        times
    };
    let places = count(2).max(count(5));
    if !rest.is_one() || places > PLACES_MAX {
        return None;
    }
    u32::try_from(places).ok()
}

/// Formats an integer with a decimal point before its last digits.
fn with_point(scaled: &BigInt, places: usize) -> String {
    let sign = if scaled.is_negative() { "-" } else { "" };
    let mut digits = scaled.abs().to_string();
    if places == 0 {
        return format!("{sign}{digits}");
    }
    if digits.len() <= places {
        digits.insert_str(0, &"0".repeat(places + 1 - digits.len()));
    }
    digits.insert(digits.len() - places, '.');
    format!("{sign}{digits}")
}

/// Formats a fraction, rounded to [`NUMBER_DIGITS`] digits.
fn format_rounded(value: &BigRational) -> String {
    let digits = NUMBER_DIGITS as i64;
    let length = |number: &BigInt| number.abs().to_string().len() as i64;
    // At most one more than the actual exponent.
    let exponent = length(value.numer()) - length(value.denom());
    let ten = |power: i64| {
        BigRational::from(BigInt::from(10).pow(u32::try_from(power.max(0)).unwrap_or(0)))
    };
    let shift = digits - exponent;
    let scaled = if shift >= 0 { value * ten(shift) } else { value / ten(-shift) };
    let text = scaled.round().to_integer().abs().to_string();
    let sign = if value.is_negative() { "-" } else { "" };
    let significant: String = text.chars().take(NUMBER_DIGITS).collect();
    format!("{sign}{}", place_point(&significant, text.len() as i64 - shift - 1))
}

/// Formats digits with the decimal point after the first digit, moved by the exponent: `15` with exponent 3 is 1500.
/// Very large and very small numbers use scientific notation.
fn place_point(digits: &str, exponent: i64) -> String {
    let digits = digits.trim_end_matches('0');
    let digits = if digits.is_empty() { "0" } else { digits };
    let length = digits.len() as i64;
    if exponent < -ZEROS_MAX || exponent >= length + ZEROS_MAX {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        return format!("{first}{point}{rest}e{exponent}");
    }
    if exponent < 0 {
        let zeros = "0".repeat(usize::try_from(-exponent - 1).unwrap_or(0));
        return format!("0.{zeros}{digits}");
    }
    let before = usize::try_from(exponent + 1).unwrap_or(0);
    match digits.get(before..) {
        Some("") => digits.to_owned(),
        Some(rest) => format!("{}.{rest}", &digits[..before]),
        None => format!("{digits}{}", "0".repeat(before - digits.len())),
    }
}

/// Formats a float with its significant digits.
fn format_float(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let text = format!("{:.*e}", FLOAT_DIGITS - 1, value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", place_point(&digits, exponent.parse().unwrap_or(0)))
}
