//! Tests through the public door: processes that die, models that are real.

#[cfg(test)]
mod crash;
mod real;
