//! Token counts without a request to the provider. They are estimates for the tokenizer family of the model, corrected
//! by the reported usage. Pure.

mod count;
mod family;

pub use count::{
    HeuristicCounter, TokenCalibration, TokenCount, TokenCounter, count_message, count_request,
    count_system, count_tools,
};
pub use family::TokenizerFamily;
