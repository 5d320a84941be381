//! Numbers as people write them.

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Signed, Zero};

use super::number::Number;
use crate::limits::NUMBER_DIGITS;

/// Digits of a float that mean something.
const FLOAT_DIGITS: usize = 15;
/// Digits of a fraction that is shown as such beside its decimals.
const FRACTION_DIGITS_MAX: usize = 20;
/// Places behind the point up to which decimals are shown to the last.
const PLACES_MAX: usize = 1_000;
/// Zeros up to which a number is written out.
const ZEROS_MAX: i64 = 6;

/// A number as text: exact where it ends, else rounded and marked.
pub(super) fn show(number: &Number) -> String {
    match number {
        Number::Exact(value) => show_exact(value),
        Number::Near(value) => format!("≈ {}", show_float(*value)),
    }
}

fn show_exact(value: &BigRational) -> String {
    if let Some(places) = decimal_places(value.denom()) {
        let scaled = value * BigRational::from(BigInt::from(10).pow(places));
        return with_point(&scaled.to_integer(), places as usize);
    }
    let rounded = rounded(value);
    let fraction = value.to_string();
    if fraction.len() <= FRACTION_DIGITS_MAX {
        return format!("≈ {rounded} (exactly {fraction})");
    }
    format!("≈ {rounded}")
}

/// How many places behind the point a fraction with this denominator has; none if they never end or are too many.
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

/// A whole number with a point before its last digits.
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

/// A fraction rounded to the digits that are shown.
fn rounded(value: &BigRational) -> String {
    let digits = NUMBER_DIGITS as i64;
    let length = |number: &BigInt| number.abs().to_string().len() as i64;
    // At most one more than the exponent really is.
    let exponent = length(value.numer()) - length(value.denom());
    let ten = |power: i64| {
        BigRational::from(BigInt::from(10).pow(u32::try_from(power.max(0)).unwrap_or(0)))
    };
    let shift = digits - exponent;
    let scaled = if shift >= 0 { value * ten(shift) } else { value / ten(-shift) };
    let text = scaled.round().to_integer().abs().to_string();
    let sign = if value.is_negative() { "-" } else { "" };
    let kept: String = text.chars().take(NUMBER_DIGITS).collect();
    format!("{sign}{}", placed(&kept, text.len() as i64 - shift - 1))
}

/// Digits with the point where the exponent says: 1.5 with exponent 3 is 1500.
fn placed(digits: &str, exponent: i64) -> String {
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

fn show_float(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let text = format!("{:.*e}", FLOAT_DIGITS - 1, value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", placed(&digits, exponent.parse().unwrap_or(0)))
}
