//! What a run may do. Nearly all runs of a class may do the same, so it is stored with the class.

use std::sync::Arc;

use crate::{FromColumn, ToColumn, Value};

/// What a run may do, as JSON.
#[derive(Debug, Clone)]
pub struct RunPolicy {
    text: Arc<str>,
    /// True if its class says the same: then the run says nothing.
    of_class: bool,
}

impl RunPolicy {
    /// One that the run is stored with.
    pub fn own(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), of_class: false }
    }

    /// The one that the run's class is stored with.
    pub fn of_class(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), of_class: true }
    }

    /// As JSON.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Where it is stored makes no difference.
impl PartialEq for RunPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for RunPolicy {}

impl ToColumn for RunPolicy {
    fn to_value(&self) -> Value<'_> {
        if self.of_class { "".to_value() } else { self.text.to_value() }
    }
}

impl FromColumn for RunPolicy {
    fn from_value(value: Value<'_>) -> Result<Self, String> {
        String::from_value(value).map(Self::own)
    }
}

#[cfg(test)]
impl super::tests::Sample for RunPolicy {
    fn sample(seed: u64) -> Self {
        Self::own(String::sample(seed))
    }
}
