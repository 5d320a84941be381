//! Numbers: exact fractions as long as that is possible, else the nearest a machine has.

use num_bigint::{BigInt, Sign};
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Pow, Signed, ToPrimitive, Zero};

use crate::limits::NUMBER_BITS_MAX;

/// A number.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Number {
    /// A fraction, without any rounding.
    Exact(BigRational),
    /// Rounded somewhere on the way; always finite.
    Near(f64),
}

type Result<T> = std::result::Result<T, String>;

impl Number {
    /// A fraction; one that is too long to go on with is rounded.
    pub(super) fn exact(value: BigRational) -> Result<Self> {
        if bits(&value) <= NUMBER_BITS_MAX {
            return Ok(Self::Exact(value));
        }
        Self::near(float(&value))
    }

    /// A rounded number.
    pub(super) fn near(value: f64) -> Result<Self> {
        if value.is_finite() {
            return Ok(Self::Near(value));
        }
        let problem = if value.is_nan() { "is not a number" } else { "is too large" };
        Err(format!("the result {problem}"))
    }

    /// The nearest a machine has.
    pub(super) fn float(&self) -> f64 {
        match self {
            Self::Exact(value) => float(value),
            Self::Near(value) => *value,
        }
    }

    fn is_zero(&self) -> bool {
        match self {
            Self::Exact(value) => value.is_zero(),
            Self::Near(value) => *value == 0.0,
        }
    }

    fn both(
        &self,
        other: &Self,
        exactly: impl Fn(&BigRational, &BigRational) -> BigRational,
        nearly: impl Fn(f64, f64) -> f64,
    ) -> Result<Self> {
        match (self, other) {
            (Self::Exact(a), Self::Exact(b)) => Self::exact(exactly(a, b)),
            _ => Self::near(nearly(self.float(), other.float())),
        }
    }

    pub(super) fn add(&self, other: &Self) -> Result<Self> {
        self.both(other, |a, b| a + b, |a, b| a + b)
    }

    pub(super) fn subtract(&self, other: &Self) -> Result<Self> {
        self.both(other, |a, b| a - b, |a, b| a - b)
    }

    pub(super) fn multiply(&self, other: &Self) -> Result<Self> {
        self.both(other, |a, b| a * b, |a, b| a * b)
    }

    pub(super) fn divide(&self, other: &Self) -> Result<Self> {
        if other.is_zero() {
            return Err("division by zero".to_owned());
        }
        self.both(other, |a, b| a / b, |a, b| a / b)
    }

    /// What is left after dividing; it has the sign of the first number.
    pub(super) fn remainder(&self, other: &Self) -> Result<Self> {
        if other.is_zero() {
            return Err("division by zero".to_owned());
        }
        self.both(other, |a, b| a - b * (a / b).trunc(), |a, b| a % b)
    }

    pub(super) fn negate(self) -> Self {
        match self {
            Self::Exact(value) => Self::Exact(-value),
            Self::Near(value) => Self::Near(-value),
        }
    }

    pub(super) fn power(&self, exponent: &Self) -> Result<Self> {
        if let (Self::Exact(base), Self::Exact(by)) = (self, exponent) {
            if base.is_zero() && by.is_negative() {
                return Err("division by zero".to_owned());
            }
            if let Some(value) = whole_power(base, by) {
                return Ok(Self::Exact(value));
            }
            if by.denom() == &BigInt::from(2) && base.is_positive() {
                let root = Self::Exact(base.clone()).root()?;
                if let (Self::Exact(_), times) = (&root, by * BigRational::from(BigInt::from(2))) {
                    return root.power(&Self::Exact(times));
                }
            }
        }
        if let Self::Exact(base) = self
            && (0.5..2.0).contains(&self.float())
        {
            // Near 1, what a float cannot hold of the base is what counts: interest for many days.
            let over_one = float(&(base - BigRational::one()));
            return Self::near((over_one.ln_1p() * exponent.float()).exp());
        }
        Self::near(self.float().powf(exponent.float()))
    }

    /// The square root; that of a square is exact.
    pub(super) fn root(&self) -> Result<Self> {
        if self.float() < 0.0 {
            return Err("the square root of a negative number is not a number".to_owned());
        }
        if let Self::Exact(value) = self {
            let (numer, denom) = (value.numer().sqrt(), value.denom().sqrt());
            if &(&numer * &numer) == value.numer() && &(&denom * &denom) == value.denom() {
                return Ok(Self::Exact(BigRational::new(numer, denom)));
            }
        }
        Self::near(self.float().sqrt())
    }

    pub(super) fn absolute(&self) -> Self {
        match self {
            Self::Exact(value) => Self::Exact(value.abs()),
            Self::Near(value) => Self::Near(value.abs()),
        }
    }

    pub(super) fn floor(&self) -> Self {
        match self {
            Self::Exact(value) => Self::Exact(value.floor()),
            Self::Near(value) => Self::Near(value.floor()),
        }
    }

    pub(super) fn ceil(&self) -> Self {
        match self {
            Self::Exact(value) => Self::Exact(value.ceil()),
            Self::Near(value) => Self::Near(value.ceil()),
        }
    }

    /// To so many places behind the point, halves away from zero.
    pub(super) fn round(&self, places: u32) -> Result<Self> {
        let scale = Self::Exact(BigRational::from(BigInt::from(10).pow(places)));
        let scaled = match self.multiply(&scale)? {
            Self::Exact(value) => Self::Exact(value.round()),
            Self::Near(value) => Self::Near(value.round()),
        };
        scaled.divide(&scale)
    }

    pub(super) fn is_less(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(a), Self::Exact(b)) => a < b,
            _ => self.float() < other.float(),
        }
    }

    /// As a whole number in a range.
    pub(super) fn whole(&self, max: u32) -> Option<u32> {
        match self {
            Self::Exact(value) if value.is_integer() => {
                value.to_integer().to_u32().filter(|number| *number <= max)
            }
            _ => None,
        }
    }
}

fn bits(value: &BigRational) -> u64 {
    value.numer().bits().max(value.denom().bits())
}

/// The nearest float, infinite where there is none.
fn float(value: &BigRational) -> f64 {
    value.to_f64().unwrap_or(match value.numer().sign() {
        Sign::Minus => f64::NEG_INFINITY,
        _ => f64::INFINITY,
    })
}

/// A power with a whole exponent, if it does not become too long.
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
