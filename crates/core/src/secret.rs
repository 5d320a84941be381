//! Values that cannot be printed.

use std::fmt;

use zeroize::Zeroize;

/// Holds a key, token or password.
///
/// It has no `Display` and no `Serialize`, its `Debug` shows nothing, and its memory is overwritten when it goes.
/// The one way to the value is [`Secret::expose`], which is easy to find in a review.
///
/// ```
/// let key = provost_core::Secret::new("sk-123".to_owned());
/// assert_eq!(format!("{key:?}"), "Secret(***)");
/// ```
///
/// ```compile_fail
/// let key = provost_core::Secret::new("sk-123".to_owned());
/// println!("{key}");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T: Zeroize>(T);

impl<T: Zeroize> Secret<T> {
    /// Takes the value in.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself: for the one place that must send it.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl From<&str> for Secret<String> {
    fn from(value: &str) -> Self {
        Self::new(value.to_owned())
    }
}

impl From<String> for Secret<String> {
    fn from(value: String) -> Self {
        Self::new(value)
    }
}
