//! Documents and images in the forms that vendors accept.

use std::fmt;

use provost_core::{Document, MediaSource, ToolResult, ToolResultPart};
use serde::{Serialize, Serializer};

/// Text that replaces an image for a model that cannot read images.
pub(crate) const IMAGE_NOTE: &str = "[an image was here, but this model cannot see images]";

/// A media source as a URL. Base64 data is written directly to the output.
pub(crate) struct DataUrl<'a>(pub(crate) &'a MediaSource);

impl fmt::Display for DataUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            MediaSource::Url(url) => f.write_str(url),
            MediaSource::Base64 { media_type, data } => {
                f.write_str("data:")?;
                f.write_str(media_type)?;
                f.write_str(";base64,")?;
                f.write_str(data)
            }
        }
    }
}

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            MediaSource::Url(url) => serializer.serialize_str(url),
            MediaSource::Base64 { .. } => serializer.collect_str(self),
        }
    }
}

/// Form in which a document is sent to a model.
pub(crate) enum DocumentForm<'a> {
    /// A PDF, as base64 data.
    Pdf(&'a str),
    /// Text of the document.
    Text(String),
    /// URL from which the vendor fetches the document.
    Url(&'a str),
    /// Note that replaces a document which the model cannot read.
    Note(String),
}

/// Returns the form in which a document is sent: as a link, as a PDF, as text, or as a note that it cannot be shown.
pub(crate) fn document_form(document: &Document) -> DocumentForm<'_> {
    let name = document.name.as_deref().unwrap_or("document");
    match &document.source {
        MediaSource::Url(url) => DocumentForm::Url(url),
        MediaSource::Base64 { media_type, data } if media_type == "application/pdf" => {
            DocumentForm::Pdf(data)
        }
        MediaSource::Base64 { media_type, .. } => {
            let is_text = media_type.starts_with("text/")
                || matches!(
                    media_type.as_str(),
                    "application/json"
                        | "application/xml"
                        | "application/yaml"
                        | "application/toml"
                );
            let text = document
                .source
                .decode()
                .filter(|_| is_text)
                .and_then(|bytes| String::from_utf8(bytes).ok());
            match text {
                Some(text) => DocumentForm::Text(text),
                None => DocumentForm::Note(format!(
                    "[the file {name} ({media_type}) cannot be shown to the model]"
                )),
            }
        }
    }
}

/// Returns true if a tool result contains images or files.
pub(crate) fn has_media(result: &ToolResult) -> bool {
    result
        .parts
        .iter()
        .any(|part| matches!(part, ToolResultPart::Image(_) | ToolResultPart::File(_)))
}
