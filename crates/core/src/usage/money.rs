//! Amounts of money as exact decimals, and model prices.

use std::fmt;
use std::str::FromStr;

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Usage;
use crate::text::first_chars;

/// Number of tokens that vendors quote prices for.
const PRICE_UNIT_TOKENS: u64 = 1_000_000;

/// An ISO 4217 currency code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Currency([u8; 3]);

impl Currency {
    /// US dollars, the default currency of vendor prices.
    pub const USD: Currency = Currency(*b"USD");
    /// Euros.
    pub const EUR: Currency = Currency(*b"EUR");

    /// Returns the three letters of the code.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("???")
    }
}

impl Default for Currency {
    fn default() -> Self {
        Self::USD
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Currency {
    type Err = MoneyError;
    fn from_str(text: &str) -> Result<Self, MoneyError> {
        match text.as_bytes() {
            [a, b, c] if text.bytes().all(|byte| byte.is_ascii_uppercase()) => {
                Ok(Self([*a, *b, *c]))
            }
            _ => Err(MoneyError::Currency(first_chars(text, 16).to_owned())),
        }
    }
}

impl TryFrom<String> for Currency {
    type Error = MoneyError;
    fn try_from(text: String) -> Result<Self, MoneyError> {
        text.parse()
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> String {
        currency.as_str().to_owned()
    }
}

/// Error of a money operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    /// The text is not three upper-case letters.
    #[error("`{0}` is not a currency: use three capital letters such as USD")]
    Currency(String),
    /// The two amounts have different currencies.
    #[error("cannot add {1:?} to {0:?}: convert one of them first")]
    Mixed(Currency, Currency),
}

/// An exact amount in one currency.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Money {
    /// Decimal amount.
    #[schemars(with = "String")]
    pub amount: Decimal,
    /// Currency of the amount.
    #[serde(default)]
    pub currency: Currency,
}

impl Money {
    /// Zero dollars.
    pub const ZERO: Money = Money { amount: Decimal::ZERO, currency: Currency::USD };

    /// Creates an amount in US dollars.
    pub fn usd(amount: Decimal) -> Self {
        Self { amount, currency: Currency::USD }
    }

    /// Creates an amount from millionths of the default currency.
    pub fn from_micros(micros: i64) -> Self {
        Self { amount: Decimal::new(micros, 6).normalize(), currency: Currency::default() }
    }

    /// Returns the amount in millionths of the currency, rounded up so that a reservation is never too small.
    pub fn micros(self) -> i64 {
        let micros = self.amount.saturating_mul(Decimal::from(1_000_000)).ceil();
        micros.to_i64().unwrap_or(i64::MAX)
    }

    /// Adds an amount of the same currency. A zero amount of any currency can be added.
    pub fn plus(self, other: Money) -> Result<Money, MoneyError> {
        if other.amount.is_zero() {
            return Ok(self);
        }
        if self.amount.is_zero() {
            return Ok(other);
        }
        if self.currency != other.currency {
            return Err(MoneyError::Mixed(self.currency, other.currency));
        }
        Ok(Money { amount: self.amount.saturating_add(other.amount), currency: self.currency })
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = self.amount.normalize();
        if self.currency == Currency::USD {
            write!(f, "${amount}")
        } else {
            write!(f, "{amount} {}", self.currency.as_str())
        }
    }
}

impl fmt::Debug for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Prices of a model, per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pricing {
    /// Price of input that was not read from or written to the cache.
    pub input: Decimal,
    /// Price of output. It also applies to reasoning if `reasoning` is `None`.
    pub output: Decimal,
    /// Price of input read from the vendor's cache. `None` means the price of `input`.
    #[serde(default)]
    pub cache_read: Option<Decimal>,
    /// Price of input written to the vendor's cache. `None` means the price of `input`.
    #[serde(default)]
    pub cache_write: Option<Decimal>,
    /// Price of reasoning output. `None` means the price of `output`.
    #[serde(default)]
    pub reasoning: Option<Decimal>,
    /// Currency of the prices.
    #[serde(default)]
    pub currency: Currency,
}

impl Pricing {
    /// Converts a price per token to a price per million tokens. `None` if the text is not a number or is negative.
    pub fn per_million(one_token: &str) -> Option<Decimal> {
        let price = one_token.parse::<Decimal>().or_else(|_| Decimal::from_scientific(one_token));
        let price = price.ok()?.checked_mul(Decimal::from(PRICE_UNIT_TOKENS))?;
        (!price.is_sign_negative()).then(|| price.normalize())
    }

    /// Returns the cost of a usage.
    pub fn cost(&self, usage: &Usage) -> Money {
        let uncached =
            usage.input.saturating_sub(usage.cache_read).saturating_sub(usage.cache_write);
        let lines = [
            (uncached, self.input),
            (usage.cache_read, self.cache_read.unwrap_or(self.input)),
            (usage.cache_write, self.cache_write.unwrap_or(self.input)),
            (usage.output.saturating_sub(usage.reasoning), self.output),
            (usage.reasoning.min(usage.output), self.reasoning.unwrap_or(self.output)),
        ];
        let total: Decimal =
            lines.iter().map(|(tokens, price)| Decimal::from(*tokens) * price).sum();
        Money { amount: total / Decimal::from(PRICE_UNIT_TOKENS), currency: self.currency }
    }

    /// Returns an upper bound of the cost of so many tokens, whatever their kind.
    pub fn cost_max(&self, input: u64, output: u64) -> Money {
        let highest = |usual: Decimal, special: [Option<Decimal>; 2]| {
            special.into_iter().flatten().fold(usual, Decimal::max)
        };
        let input_price = highest(self.input, [self.cache_read, self.cache_write]);
        let output_price = highest(self.output, [self.reasoning, None]);
        let total = Decimal::from(input) * input_price + Decimal::from(output) * output_price;
        Money { amount: total / Decimal::from(PRICE_UNIT_TOKENS), currency: self.currency }
    }

    /// Returns the higher price of each kind. `None` if the currencies differ.
    pub fn max_prices(&self, other: &Self) -> Option<Self> {
        let part = |of: fn(&Self) -> (Option<Decimal>, Decimal)| match (of(self), of(other)) {
            ((None, _), (None, _)) => None,
            ((one, usual), (two, other_usual)) => {
                Some(one.unwrap_or(usual).max(two.unwrap_or(other_usual)))
            }
        };
        (self.currency == other.currency).then(|| Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            cache_read: part(|pricing| (pricing.cache_read, pricing.input)),
            cache_write: part(|pricing| (pricing.cache_write, pricing.input)),
            reasoning: part(|pricing| (pricing.reasoning, pricing.output)),
            currency: self.currency,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dec(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    #[test]
    fn cost_counts_cached_tokens_once_and_at_their_own_price() {
        let pricing = Pricing {
            input: dec("3"),
            output: dec("15"),
            cache_read: Some(dec("0.3")),
            cache_write: None,
            reasoning: None,
            currency: Currency::USD,
        };
        let usage =
            Usage { input: 1_000_000, output: 100_000, cache_read: 400_000, ..Usage::default() };
        assert_eq!(pricing.cost(&usage).to_string(), "$3.42");
        let thinking = Pricing { reasoning: Some(dec("20")), ..pricing };
        let usage = Usage { reasoning: 40_000, ..usage };
        assert_eq!(thinking.cost(&usage).to_string(), "$3.62");
    }

    #[test]
    fn the_most_is_by_the_dearest_price_of_each_side() {
        let cheap = Pricing {
            input: dec("1"),
            output: dec("2"),
            cache_read: Some(dec("0.1")),
            cache_write: Some(dec("1.25")),
            reasoning: None,
            currency: Currency::USD,
        };
        assert_eq!(cheap.cost_max(1_000_000, 1_000_000).to_string(), "$3.25");
        let thinking = Pricing {
            input: dec("0.5"),
            output: dec("1"),
            cache_read: None,
            cache_write: None,
            reasoning: Some(dec("9")),
            currency: Currency::USD,
        };
        let both = cheap.max_prices(&thinking).unwrap();
        assert_eq!((both.input, both.output, both.reasoning), (dec("1"), dec("2"), Some(dec("9"))));
        assert_eq!((both.cache_read, both.cache_write), (Some(dec("0.5")), Some(dec("1.25"))));
        assert_eq!(cheap.max_prices(&Pricing { currency: Currency::EUR, ..thinking }), None);
    }

    #[test]
    fn a_price_for_one_token_is_read_in_any_notation() {
        for (text, price) in [
            ("0.000003", Some("3")),
            ("1.5e-7", Some("0.15")),
            ("0", Some("0")),
            ("-1", None),
            ("free", None),
        ] {
            assert_eq!(Pricing::per_million(text), price.map(dec), "{text}");
        }
    }

    #[test]
    fn currencies_do_not_mix() {
        let euro = Money { amount: dec("1"), currency: Currency::EUR };
        assert_eq!(
            Money::usd(dec("1")).plus(euro),
            Err(MoneyError::Mixed(Currency::USD, Currency::EUR))
        );
        assert_eq!(Money::ZERO.plus(euro), Ok(euro));
        assert!("usd".parse::<Currency>().is_err());
    }

    #[test]
    fn amounts_are_exact_in_json() {
        let money = Money::usd(dec("0.1"));
        let text = serde_json::to_string(&money).unwrap();
        assert_eq!(text, r#"{"amount":"0.1","currency":"USD"}"#);
        assert_eq!(serde_json::from_str::<Money>(&text).unwrap(), money);
    }
}
