//! Collected errors, so that one compilation reports all of them.

use quote::ToTokens;

/// Errors found so far.
#[derive(Default)]
pub(crate) struct Diagnostics(Option<syn::Error>);

impl Diagnostics {
    /// Adds an error at a location in the user's code.
    pub(crate) fn error(&mut self, place: impl ToTokens, message: impl std::fmt::Display) {
        self.push(syn::Error::new_spanned(place, message));
    }

    /// Adds an error.
    pub(crate) fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Returns all errors combined into one. `Ok` if there is none.
    pub(crate) fn finish(self) -> syn::Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}
