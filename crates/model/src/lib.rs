//! Chat models: one trait, pure wire codecs, one HTTP transport.
//!
//! [`ChatModel::stream`] is the one thing a model must do; everything else folds that stream.
//! Vendor JSON is known only to the codecs in `wire`; the transport moves bytes and knows no vendor.

mod chat;
mod error;
mod fold;
mod info;
mod request;
mod scripted;

pub use chat::{ChatModel, ModelEvent, ModelResponse, ModelStream, complete};
pub use error::{ModelError, ModelErrorClass};
pub use fold::Fold;
pub use info::{ModelInfo, NativeOutput};
pub use request::{ChatRequest, Effort, OutputSchema, Settings, ToolChoice};
pub use scripted::{ScriptedModel, Turn, call, calls, fail, text};
