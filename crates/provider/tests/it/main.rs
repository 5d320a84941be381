//! Test suite for all wires over a real socket.

#[cfg(test)]
mod aimock;
#[cfg(test)]
mod batch;
mod choice;
mod content;
#[cfg(test)]
mod embed;
mod failure;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod harness;
mod input;
#[cfg(test)]
mod matrix;
#[cfg(test)]
mod meaning;
#[cfg(test)]
mod pairs;
#[cfg(test)]
mod reasoning;
mod transport;
#[cfg(test)]
mod variations;
#[cfg(test)]
mod vendors;
