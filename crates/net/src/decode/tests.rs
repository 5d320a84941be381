//! Encodings, whole and broken.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use http::HeaderValue;

use super::*;

fn decoder(encoding: &'static str) -> Result<Option<BodyDecoder>, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
    BodyDecoder::of(&headers)
}

fn text() -> Vec<u8> {
    (0..20_000_u32).flat_map(|n| (n * n).to_string().into_bytes()).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn bare(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Feeds it in pieces of a size and takes all that comes out.
fn unpack(encoding: &'static str, packed: &[u8], size: usize) -> io::Result<Vec<u8>> {
    let mut decoder = decoder(encoding).unwrap().unwrap();
    let mut whole = Vec::new();
    for piece in packed.chunks(size) {
        decoder.feed(Bytes::copy_from_slice(piece));
        while let Some(piece) = decoder.next()? {
            assert!(piece.len() <= UNPACK_BYTES);
            whole.extend_from_slice(&piece);
        }
    }
    decoder.end();
    while let Some(piece) = decoder.next()? {
        whole.extend_from_slice(&piece);
    }
    assert!(decoder.is_ended());
    Ok(whole)
}

#[test]
fn what_was_packed_comes_out_however_it_was_cut() {
    let text = text();
    let twice = [gzip(&text), gzip(&text)].concat();
    for size in [1, 2, 3, 7, 1000, usize::MAX >> 1] {
        assert!(unpack("gzip", &gzip(&text), size).unwrap() == text, "{size}");
        assert!(unpack("deflate", &zlib(&text), size).unwrap() == text, "{size}");
        assert!(unpack("Deflate", &bare(&text), size).unwrap() == text, "{size}");
        assert!(unpack("x-gzip", &twice, size).unwrap() == [&text[..], &text[..]].concat());
    }
}

#[test]
fn an_empty_body_is_empty() {
    for encoding in ["gzip", "deflate"] {
        assert!(unpack(encoding, &[], 1).unwrap().is_empty());
        let packed = if encoding == "gzip" { gzip(&[]) } else { zlib(&[]) };
        assert!(unpack(encoding, &packed, 1).unwrap().is_empty());
    }
}

#[test]
fn what_is_broken_is_an_error() {
    let packed = gzip(&text());
    assert!(unpack("gzip", &packed[..packed.len() / 2], 100).is_err());
    assert!(unpack("gzip", &packed[..packed.len() - 1], 100).is_err());
    assert!(unpack("gzip", b"this is not packed", 100).is_err());
    assert!(unpack("deflate", b"x", 100).is_err());
    let mut wrong = packed;
    let last = wrong.len() - 5;
    wrong[last] ^= 1;
    assert!(unpack("gzip", &wrong, 100).is_err(), "the checksum is checked");
}

#[test]
fn only_one_known_encoding_is_taken() {
    for encoding in ["br", "zstd", "gzip, br", "gzip, gzip", "aes128gcm", "compress"] {
        assert!(decoder(encoding).is_err(), "{encoding}");
    }
    for encoding in ["identity", "", "identity, identity"] {
        assert!(decoder(encoding).unwrap().is_none(), "{encoding}");
    }
    assert!(decoder("identity, gzip").unwrap().is_some());
}

#[test]
fn a_stream_gives_all_that_came_without_waiting_for_more() {
    for size in (1..14).map(|n| n * 29_989) {
        for zeros in [true, false] {
            let mut text = text();
            text.truncate(size);
            if zeros || text.len() < size {
                text = vec![0; size];
            }
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            let mut decoder = decoder("gzip").unwrap().unwrap();
            let mut sent = 0;
            for _ in 0..3 {
                encoder.write_all(&text).unwrap();
                encoder.flush().unwrap();
                let packed = &encoder.get_ref()[sent..];
                decoder.feed(Bytes::copy_from_slice(packed));
                sent += packed.len();
                let mut whole = Vec::new();
                while let Some(piece) = decoder.next().unwrap() {
                    whole.extend_from_slice(&piece);
                }
                assert!(whole == text, "{} of {size}", whole.len());
            }
        }
    }
}
