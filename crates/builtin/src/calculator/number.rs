//! Numbers: exact fractions where possible, else floating-point numbers.

use num_bigint::{BigInt, Sign};
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Pow, Signed, ToPrimitive, Zero};

use crate::limits::NUMBER_BITS_MAX;

/// A fraction, or a float if the fraction would be too long or the value is irrational.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Number {
    /// An exact fraction.
    Rational(BigRational),
    /// A rounded number. Always finite.
    Float(f64),
}

type Result<T> = std::result::Result<T, String>;

impl Number {
    /// Creates a number from a fraction. A fraction that is too long is rounded.
    pub(super) fn from_rational(value: BigRational) -> Result<Self> {
        if bits(&value) <= NUMBER_BITS_MAX {
            return Ok(Self::Rational(value));
        }
        Self::from_float(to_float(&value))
    }

    /// Creates a number from a float. Returns a message if it is infinite or not a number.
    pub(super) fn from_float(value: f64) -> Result<Self> {
        if value.is_finite() {
            return Ok(Self::Float(value));
        }
        let problem = if value.is_nan() { "is not a number" } else { "is too large" };
        Err(format!("the result {problem}"))
    }

    /// Returns the nearest float.
    pub(super) fn to_float(&self) -> f64 {
        match self {
            Self::Rational(value) => to_float(value),
            Self::Float(value) => *value,
        }
    }

    fn is_zero(&self) -> bool {
        match self {
            Self::Rational(value) => value.is_zero(),
            Self::Float(value) => *value == 0.0,
        }
    }

    /// Applies an operation: exact if both numbers are fractions, otherwise on floats.
    fn binary(
        &self,
        other: &Self,
        rational: impl Fn(&BigRational, &BigRational) -> BigRational,
        float: impl Fn(f64, f64) -> f64,
    ) -> Result<Self> {
        match (self, other) {
            (Self::Rational(a), Self::Rational(b)) => Self::from_rational(rational(a, b)),
            _ => Self::from_float(float(self.to_float(), other.to_float())),
        }
    }

    pub(super) fn add(&self, other: &Self) -> Result<Self> {
        self.binary(other, |a, b| a + b, |a, b| a + b)
    }

    pub(super) fn subtract(&self, other: &Self) -> Result<Self> {
        self.binary(other, |a, b| a - b, |a, b| a - b)
    }

    pub(super) fn multiply(&self, other: &Self) -> Result<Self> {
        self.binary(other, |a, b| a * b, |a, b| a * b)
    }

    /// Returns the quotient. Returns a message for a division by zero.
    pub(super) fn divide(&self, other: &Self) -> Result<Self> {
        if other.is_zero() {
            return Err("division by zero".to_owned());
        }
        self.binary(other, |a, b| a / b, |a, b| a / b)
    }

    /// Returns the remainder, with the sign of the dividend. Returns a message for a division by zero.
    pub(super) fn remainder(&self, other: &Self) -> Result<Self> {
        if other.is_zero() {
            return Err("division by zero".to_owned());
        }
        self.binary(other, |a, b| a - b * (a / b).trunc(), |a, b| a % b)
    }

    pub(super) fn negate(self) -> Self {
        match self {
            Self::Rational(value) => Self::Rational(-value),
            Self::Float(value) => Self::Float(-value),
        }
    }

    /// Returns the power. It is exact for integer exponents and for roots of squares. Returns a message if it is not a
    /// number or too large.
    pub(super) fn power(&self, exponent: &Self) -> Result<Self> {
        if let (Self::Rational(base), Self::Rational(by)) = (self, exponent) {
            if base.is_zero() && by.is_negative() {
                return Err("division by zero".to_owned());
            }
            if let Some(value) = whole_power(base, by) {
                return Ok(Self::Rational(value));
            }
            if by.denom() == &BigInt::from(2) && base.is_positive() {
                let root = Self::Rational(base.clone()).root()?;
                if let (Self::Rational(_), times) = (&root, by * BigRational::from(BigInt::from(2)))
                {
                    return root.power(&Self::Rational(times));
                }
            }
        }
        if let Self::Rational(base) = self
            && (0.5..2.0).contains(&self.to_float())
        {
            // Near 1, the digits that a float cannot represent matter, for example in daily interest.
            let over_one = to_float(&(base - BigRational::one()));
            return Self::from_float((over_one.ln_1p() * exponent.to_float()).exp());
        }
        Self::from_float(self.to_float().powf(exponent.to_float()))
    }

    /// Returns the square root. The root of a square is exact. Returns a message for a negative number.
    pub(super) fn root(&self) -> Result<Self> {
        if self.to_float() < 0.0 {
            return Err("the square root of a negative number is not a number".to_owned());
        }
        if let Self::Rational(value) = self {
            let (numer, denom) = (value.numer().sqrt(), value.denom().sqrt());
            if &(&numer * &numer) == value.numer() && &(&denom * &denom) == value.denom() {
                return Ok(Self::Rational(BigRational::new(numer, denom)));
            }
        }
        Self::from_float(self.to_float().sqrt())
    }

    pub(super) fn absolute(&self) -> Self {
        match self {
            Self::Rational(value) => Self::Rational(value.abs()),
            Self::Float(value) => Self::Float(value.abs()),
        }
    }

    pub(super) fn floor(&self) -> Self {
        match self {
            Self::Rational(value) => Self::Rational(value.floor()),
            Self::Float(value) => Self::Float(value.floor()),
        }
    }

    pub(super) fn ceil(&self) -> Self {
        match self {
            Self::Rational(value) => Self::Rational(value.ceil()),
            Self::Float(value) => Self::Float(value.ceil()),
        }
    }

    /// Rounds to decimal places, with halves away from zero.
    pub(super) fn round(&self, places: u32) -> Result<Self> {
        let scale = Self::Rational(BigRational::from(BigInt::from(10).pow(places)));
        let scaled = match self.multiply(&scale)? {
            Self::Rational(value) => Self::Rational(value.round()),
            Self::Float(value) => Self::Float(value.round()),
        };
        scaled.divide(&scale)
    }

    pub(super) fn is_less(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Rational(a), Self::Rational(b)) => a < b,
            _ => self.to_float() < other.to_float(),
        }
    }

    /// Returns the number as an integer. `None` if it is not an integer from 0 to `max`.
    pub(super) fn to_integer_up_to(&self, max: u32) -> Option<u32> {
        match self {
            Self::Rational(value) if value.is_integer() => {
                value.to_integer().to_u32().filter(|number| *number <= max)
            }
            _ => None,
        }
    }
}

/// Returns the length of the longer part of a fraction in bits.
fn bits(value: &BigRational) -> u64 {
    value.numer().bits().max(value.denom().bits())
}

/// Returns the nearest float. Infinite if the fraction is too large.
fn to_float(value: &BigRational) -> f64 {
    value.to_f64().unwrap_or(match value.numer().sign() {
        Sign::Minus => f64::NEG_INFINITY,
        _ => f64::INFINITY,
    })
}

/// Returns a power with an integer exponent. `None` if the result is too long.
fn whole_power(base: &BigRational, exponent: &BigRational) -> Option<BigRational> {
    if !exponent.is_integer() {
        return None;
    }
    let exponent = exponent.to_integer();
    let is_even = exponent.is_even();
    let one = BigRational::one();
    if base == &one || exponent.is_zero() {
        return Some(one);
    }
    if base == &-&one {
        return Some(if is_even { one } else { -one });
    }
    if base.is_zero() {
        return Some(BigRational::zero());
    }
    let times = exponent.abs().to_u32()?;
    // A power has at most this many bits and at least half of them.
    if bits(base).checked_mul(u64::from(times))? > 2 * NUMBER_BITS_MAX {
        return None;
    }
    let power = Pow::pow(base, times);
    if bits(&power) > NUMBER_BITS_MAX {
        return None;
    }
    Some(if exponent.is_negative() { power.recip() } else { power })
}
