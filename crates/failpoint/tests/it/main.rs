//! Tests of failpoints: inside one process, and in processes that they kill.

#[cfg(test)]
mod process;
#[cfg(test)]
mod scenario;
