//! Tests of the places: inside one process, and of processes that die.

#[cfg(test)]
mod process;
#[cfg(test)]
mod scenario;
