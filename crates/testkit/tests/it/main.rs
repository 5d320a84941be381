//! Tests of the test doubles.

#[cfg(test)]
mod server;
