//! Decoding of response bodies in bounded steps.
//!
//! Only requested encodings are decoded, and only one per body: nested encodings enable decompression bombs.

use std::io::{self, BufRead, Read};

use bytes::{Buf, Bytes};
use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::header::{CONTENT_ENCODING, HeaderMap};

use crate::limits::UNPACK_BYTES;

/// Number of final input bytes that are decoded separately. The decoder may hold back up to its window (32 KiB) when
/// its output buffer is full, and continues only with more input, which may not arrive soon. So few bytes cannot fill
/// the buffer, because the expansion factor is at most 1,032.
const TAIL_BYTES: usize = 16;

/// Decoder of one compressed response body. Input arrives in chunks.
pub(crate) struct BodyDecoder {
    encoding: ContentEncoding,
    buffer: Box<[u8]>,
    /// True if bytes have arrived: an empty body is valid with any declared encoding.
    has_started: bool,
    ended: bool,
}

/// The decoder of each supported encoding, with its input.
enum ContentEncoding {
    Gzip(Box<MultiGzDecoder<DecoderInput>>),
    /// `deflate` means zlib, but many servers send raw deflate. The first two bytes distinguish them.
    Unknown(DecoderInput),
    Zlib(Box<ZlibDecoder<DecoderInput>>),
    Deflate(Box<DeflateDecoder<DecoderInput>>),
}

/// Input that was not decoded yet.
#[derive(Default)]
struct DecoderInput {
    bytes: Bytes,
    ended: bool,
}

impl Read for DecoderInput {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(into)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for DecoderInput {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self.bytes.len() {
            0 if !self.ended => Err(io::ErrorKind::WouldBlock.into()),
            0..=TAIL_BYTES => Ok(&self.bytes),
            more => Ok(&self.bytes[..more - TAIL_BYTES]),
        }
    }

    fn consume(&mut self, amount: usize) {
        self.bytes.advance(amount);
    }
}

impl BodyDecoder {
    /// Returns the decoder that the headers require. `None` if the body is not encoded; an error if the encoding is
    /// not supported.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Self>, String> {
        let mut encoding = None;
        for value in headers.get_all(CONTENT_ENCODING) {
            let value =
                value.to_str().map_err(|error| format!("invalid content encoding: {error}"))?;
            let codings = value.split(',').map(str::trim);
            for coding in codings.filter(|coding| !coding.eq_ignore_ascii_case("identity")) {
                let known = match coding.to_ascii_lowercase().as_str() {
                    "" => continue,
                    "gzip" | "x-gzip" => ContentEncoding::Gzip(Box::new(MultiGzDecoder::new(
                        DecoderInput::default(),
                    ))),
                    "deflate" => ContentEncoding::Unknown(DecoderInput::default()),
                    _ => return Err("the content encoding was not requested".to_owned()),
                };
                if encoding.replace(known).is_some() {
                    return Err("the body has more than one content encoding".to_owned());
                }
            }
        }
        let buffer = || vec![0; UNPACK_BYTES].into_boxed_slice();
        Ok(encoding.map(|encoding| Self {
            encoding,
            buffer: buffer(),
            has_started: false,
            ended: false,
        }))
    }

    /// Adds input. The previous input must have been decoded completely.
    pub(crate) fn feed(&mut self, bytes: Bytes) {
        self.has_started |= !bytes.is_empty();
        let input = self.source();
        input.bytes = match input.bytes.is_empty() {
            true => bytes,
            // Only the first byte of `deflate` is ever buffered.
            false => [&input.bytes[..], &bytes[..]].concat().into(),
        };
    }

    /// Marks the end of the input.
    pub(crate) fn end(&mut self) {
        self.source().ended = true;
        self.ended |= !self.has_started;
    }

    /// Returns true after all input was decoded.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Returns the next decoded chunk. `None` if more input is needed, and at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.ended || !self.has_started {
            return Ok(None);
        }
        self.detect_zlib();
        let buffer = &mut self.buffer;
        let read = match &mut self.encoding {
            ContentEncoding::Gzip(decoder) => decoder.read(buffer),
            ContentEncoding::Zlib(decoder) => decoder.read(buffer),
            ContentEncoding::Deflate(decoder) => decoder.read(buffer),
            ContentEncoding::Unknown(input) if input.ended => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            ContentEncoding::Unknown(_) => return Ok(None),
        };
        match read {
            Ok(0) => {
                self.ended = true;
                Ok(None)
            }
            Ok(read) => Ok(Some(Bytes::copy_from_slice(&self.buffer[..read]))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Distinguishes zlib from raw deflate once two bytes have arrived.
    fn detect_zlib(&mut self) {
        let ContentEncoding::Unknown(input) = &mut self.encoding else {
            return;
        };
        let [first, second, ..] = input.bytes[..] else {
            return;
        };
        let input = std::mem::take(input);
        let zlib = first & 0x0f == 8 && u16::from_be_bytes([first, second]).is_multiple_of(31);
        self.encoding = match zlib {
            true => ContentEncoding::Zlib(Box::new(ZlibDecoder::new(input))),
            false => ContentEncoding::Deflate(Box::new(DeflateDecoder::new(input))),
        };
    }

    /// Returns the input of the decoder, whatever its encoding.
    fn source(&mut self) -> &mut DecoderInput {
        match &mut self.encoding {
            ContentEncoding::Gzip(decoder) => decoder.get_mut(),
            ContentEncoding::Unknown(input) => input,
            ContentEncoding::Zlib(decoder) => decoder.get_mut(),
            ContentEncoding::Deflate(decoder) => decoder.get_mut(),
        }
    }
}

#[cfg(test)]
mod tests;
