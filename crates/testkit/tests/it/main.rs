//! Tests of the test doubles.

#[cfg(test)]
mod ledger;
#[cfg(test)]
mod process;
#[cfg(test)]
mod sdks;
#[cfg(test)]
mod server;
