//! Values that cannot be printed.

use std::fmt;

use zeroize::Zeroize;

/// A key, token or password.
///
/// It has no `Display` and no `Serialize`, its `Debug` hides the value, and its memory is overwritten on drop.
/// [`Secret::expose`] is the only access to the value, which makes every use easy to find in a review.
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
    /// Wraps a value.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value, for the code that sends it.
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
