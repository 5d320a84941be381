//! The embeddings endpoint of OpenAI: a pure codec.

use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, InvalidHeaderValue};
use serde::{Deserialize, Serialize};

use crate::wire::{Decoder, Wire, malformed, openai_chat::OpenAiChat};
use crate::{ChatRequest, ModelError, ModelErrorClass, ModelInfo};

/// The wire, as the transport wants one: the address, the headers, the errors. It cannot chat.
pub(super) struct OpenAiEmbeddings;

impl Wire for OpenAiEmbeddings {
    fn path(&self, _base_path: &str) -> &'static str {
        "/embeddings"
    }

    fn headers(
        &self,
        key: Option<&str>,
        headers: &mut HeaderMap,
    ) -> Result<(), InvalidHeaderValue> {
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(key) = key {
            let mut value = HeaderValue::try_from(format!("Bearer {key}"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(())
    }

    fn encode(&self, _request: &ChatRequest, _info: &ModelInfo) -> Result<Vec<u8>, ModelError> {
        let problem = "an embeddings endpoint cannot chat: use a chat model";
        Err(ModelError::new(ModelErrorClass::InvalidRequest, problem))
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        OpenAiChat::default().decoder()
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

/// The body of a request.
pub(super) fn encode(
    model: &str,
    input: &[String],
    dimensions: Option<usize>,
) -> Result<Vec<u8>, ModelError> {
    let body = Body { model, input, encoding_format: "float", dimensions };
    serde_json::to_vec(&body).map_err(|cause| {
        let problem = "the texts cannot be written as JSON";
        ModelError::new(ModelErrorClass::InvalidRequest, problem).caused_by(cause)
    })
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
    usage: Option<Used>,
}

#[derive(Deserialize)]
struct Item {
    index: Option<usize>,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct Used {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    total_tokens: Option<u64>,
}

/// The vectors in the order of the texts, and the tokens if they were told.
pub(super) fn decode(
    body: &[u8],
    texts: usize,
    dimensions: usize,
) -> Result<(Vec<Vec<f32>>, Option<u64>), ModelError> {
    let answer: Answer =
        serde_json::from_slice(body).map_err(|cause| malformed("embeddings", &cause))?;
    let used = answer.usage.and_then(|used| used.prompt_tokens.or(used.total_tokens));
    let wrong = |problem: String| ModelError::new(ModelErrorClass::Malformed, problem);
    if answer.data.len() != texts {
        let found = answer.data.len();
        return Err(wrong(format!("the provider sent {found} vectors for {texts} texts")));
    }
    let mut vectors = vec![Vec::new(); texts];
    for (place, item) in answer.data.into_iter().enumerate() {
        let found = item.embedding.len();
        if found != dimensions {
            return Err(wrong(format!(
                "the model gives vectors of {found} numbers, not {dimensions}: build the embedder with the model's own size"
            )));
        }
        if item.embedding.iter().any(|x| !x.is_finite()) {
            return Err(wrong("the provider sent a vector that is not of finite numbers".into()));
        }
        match vectors.get_mut(item.index.unwrap_or(place)) {
            Some(slot) if slot.is_empty() => *slot = item.embedding,
            _ => return Err(wrong("the provider numbered its vectors wrongly".into())),
        }
    }
    Ok((vectors, used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_restored_by_index() {
        let body = br#"{"data":[{"index":1,"embedding":[2.0]},{"index":0,"embedding":[1.0]}],"usage":{"prompt_tokens":3}}"#;
        let (vectors, used) = decode(body, 2, 1).unwrap();
        assert_eq!(vectors, [vec![1.0], vec![2.0]]);
        assert_eq!(used, Some(3));
    }

    #[test]
    fn wrong_answers_are_refused() {
        for (body, texts, dimensions) in [
            (r#"{"data":[]}"#, 1, 1),
            (r#"{"data":[{"embedding":[1.0,2.0]}]}"#, 1, 1),
            (r#"{"data":[{"index":0,"embedding":[1.0]},{"index":0,"embedding":[1.0]}]}"#, 2, 1),
            (r#"{"data":[{"index":9,"embedding":[1.0]}]}"#, 1, 1),
            (r#"{"data":[{"embedding":[1e99]}]}"#, 1, 1),
            ("[]", 1, 1),
        ] {
            let error = decode(body.as_bytes(), texts, dimensions).unwrap_err();
            assert_eq!(error.class, ModelErrorClass::Malformed, "{body}");
        }
    }
}
