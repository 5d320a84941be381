//! Tracing spans of model calls, after the GenAI conventions. They contain no content.

use tracing::{Span, field::Empty, info_span};

use crate::{EmbedderInfo, ModelError, gen_ai};

/// Creates the span of an embeddings request with this number of texts.
pub fn embeddings(info: &EmbedderInfo, texts: usize) -> Span {
    info_span!(
        "embeddings",
        otel.name = %format_args!("embeddings {}", info.model),
        otel.kind = "client",
        otel.status_code = Empty,
        { gen_ai::OPERATION_NAME } = gen_ai::EMBEDDINGS,
        { gen_ai::PROVIDER_NAME } = gen_ai::provider(&info.provider),
        { gen_ai::REQUEST_MODEL } = info.model,
        { gen_ai::EMBEDDINGS_DIMENSIONS } = i64::try_from(info.dimensions).unwrap_or(i64::MAX),
        { gen_ai::REQUEST_INPUT_COUNT } = i64::try_from(texts).unwrap_or(i64::MAX),
        { gen_ai::USAGE_INPUT } = Empty,
        { gen_ai::ERROR_TYPE } = Empty,
    )
}

/// Records in a span the number of input tokens, if it is known, or the error status and class.
pub fn record_result(span: &Span, result: Result<Option<u64>, &ModelError>) {
    match result {
        Ok(None) => {}
        Ok(Some(tokens)) => {
            span.record(gen_ai::USAGE_INPUT, i64::try_from(tokens).unwrap_or(i64::MAX));
        }
        Err(error) => {
            span.record("otel.status_code", "ERROR");
            span.record(gen_ai::ERROR_TYPE, error.class.as_str());
        }
    }
}
