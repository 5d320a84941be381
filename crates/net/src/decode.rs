//! Undoing the encoding of a body, a bounded piece at a time.
//!
//! Only what was asked for is undone, and only once: an encoding within an encoding is how bombs are built.

use std::io::{self, BufRead, Read};

use bytes::{Buf, Bytes};
use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::header::{CONTENT_ENCODING, HeaderMap};

use crate::limits::UNPACK_BYTES;

/// The last bytes of what came, which are given apart. The unpacker may keep up to its window (32 KiB) back when the room
/// for its output is full, and would only go on with more input, which a stream may not have for long. These few cannot fill
/// the room: nothing becomes more than 1,032 times as much.
const TAIL_BYTES: usize = 16;

/// Unpacks what it is fed.
pub(crate) struct Decoder {
    method: Method,
    room: Box<[u8]>,
    /// Some bytes came: an empty body is empty, however it is said to be packed.
    begun: bool,
    ended: bool,
}

enum Method {
    Gzip(Box<MultiGzDecoder<Feed>>),
    /// `deflate` means zlib, but many send it bare: the first two bytes tell.
    Unknown(Feed),
    Zlib(Box<ZlibDecoder<Feed>>),
    Deflate(Box<DeflateDecoder<Feed>>),
}

/// What came and was not unpacked yet.
#[derive(Default)]
struct Feed {
    bytes: Bytes,
    ended: bool,
}

impl Read for Feed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(into)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for Feed {
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

impl Decoder {
    /// What a body needs by its headers, if anything.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Self>, String> {
        let mut method = None;
        for value in headers.get_all(CONTENT_ENCODING) {
            let value = value.to_str().map_err(|error| format!("its encoding: {error}"))?;
            let codings = value.split(',').map(str::trim);
            for coding in codings.filter(|coding| !coding.eq_ignore_ascii_case("identity")) {
                let known = match coding.to_ascii_lowercase().as_str() {
                    "" => continue,
                    "gzip" | "x-gzip" => {
                        Method::Gzip(Box::new(MultiGzDecoder::new(Feed::default())))
                    }
                    "deflate" => Method::Unknown(Feed::default()),
                    _ => return Err("it is encoded in a way that was not asked for".to_owned()),
                };
                if method.replace(known).is_some() {
                    return Err("it is encoded more than once".to_owned());
                }
            }
        }
        let room = || vec![0; UNPACK_BYTES].into_boxed_slice();
        Ok(method.map(|method| Self { method, room: room(), begun: false, ended: false }))
    }

    /// Takes more; all that came before was unpacked.
    pub(crate) fn feed(&mut self, bytes: Bytes) {
        self.begun |= !bytes.is_empty();
        let feed = self.source();
        feed.bytes = match feed.bytes.is_empty() {
            true => bytes,
            // Only the first byte of `deflate` is ever kept.
            false => [&feed.bytes[..], &bytes[..]].concat().into(),
        };
    }

    /// Nothing more comes.
    pub(crate) fn end(&mut self) {
        self.source().ended = true;
        self.ended |= !self.begun;
    }

    /// True after all was unpacked.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// The next piece; `None` if more must come first, or at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.ended || !self.begun {
            return Ok(None);
        }
        self.tell();
        let room = &mut self.room;
        let read = match &mut self.method {
            Method::Gzip(decoder) => decoder.read(room),
            Method::Zlib(decoder) => decoder.read(room),
            Method::Deflate(decoder) => decoder.read(room),
            Method::Unknown(feed) if feed.ended => Err(io::ErrorKind::UnexpectedEof.into()),
            Method::Unknown(_) => return Ok(None),
        };
        match read {
            Ok(0) => {
                self.ended = true;
                Ok(None)
            }
            Ok(read) => Ok(Some(Bytes::copy_from_slice(&self.room[..read]))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Tells zlib from bare deflate once two bytes are there.
    fn tell(&mut self) {
        let Method::Unknown(feed) = &mut self.method else {
            return;
        };
        let [first, second, ..] = feed.bytes[..] else {
            return;
        };
        let feed = std::mem::take(feed);
        let zlib = first & 0x0f == 8 && u16::from_be_bytes([first, second]).is_multiple_of(31);
        self.method = match zlib {
            true => Method::Zlib(Box::new(ZlibDecoder::new(feed))),
            false => Method::Deflate(Box::new(DeflateDecoder::new(feed))),
        };
    }

    fn source(&mut self) -> &mut Feed {
        match &mut self.method {
            Method::Gzip(decoder) => decoder.get_mut(),
            Method::Unknown(feed) => feed,
            Method::Zlib(decoder) => decoder.get_mut(),
            Method::Deflate(decoder) => decoder.get_mut(),
        }
    }
}

#[cfg(test)]
mod tests;
