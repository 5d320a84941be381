//! Integration tests: killed processes and real embedding models.

#[cfg(test)]
mod crash;
mod real;
