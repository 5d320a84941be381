//! Collects what is wrong, so that one compile shows everything.

use quote::ToTokens;

/// The faults found so far.
#[derive(Default)]
pub(crate) struct Faults(Option<syn::Error>);

impl Faults {
    /// Notes a fault at a place in the user's code.
    pub(crate) fn at(&mut self, place: impl ToTokens, sentence: impl std::fmt::Display) {
        self.add(syn::Error::new_spanned(place, sentence));
    }

    /// Notes an error.
    pub(crate) fn add(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// All of them as one error, if there are any.
    pub(crate) fn finish(self) -> syn::Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}
