//! How many tokens something is, without asking the provider: an estimate by the family of the model, corrected by what the
//! provider reports. Pure.

mod count;
mod family;

pub use count::{
    Calibration, Estimate, TokenCount, TokenCounter, count_message, count_request, count_system,
    count_tools,
};
pub use family::Family;
