//! The binary frames of AWS: a length, headers, a payload, and a checksum over each part.
//!
//! ```text
//! total length (4) | length of headers (4) | CRC of these 8 bytes (4) | headers | payload | CRC of all before (4)
//! ```

use super::FrameError;
use crate::wire::SseEvent;

/// Size of the part before the headers, in bytes.
const PRELUDE: usize = 12;
/// Size of a frame without headers and payload, in bytes.
const FRAME_MIN: usize = PRELUDE + 4;
/// Type code of a header value that is a string.
const STRING: u8 = 7;

/// Parser of AWS event stream frames. The name of an event is the value of its `:event-type` or `:exception-type`
/// header.
#[derive(Debug)]
pub(super) struct AwsEventStreamParser {
    /// Beginning of an incomplete frame.
    frame: Vec<u8>,
    bytes_max: usize,
}

impl AwsEventStreamParser {
    pub(super) fn with_limit(bytes_max: usize) -> Self {
        Self { frame: Vec::new(), bytes_max }
    }

    /// Parses a chunk and passes each complete frame to `sink`. Keeps an incomplete frame for the next chunk.
    pub(super) fn push<E: From<FrameError>>(
        &mut self,
        chunk: &[u8],
        sink: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.frame.is_empty() {
            let parsed = parse_frames(chunk, self.bytes_max, sink)?;
            self.frame.extend_from_slice(&chunk[parsed..]);
            return Ok(());
        }
        let mut frame = std::mem::take(&mut self.frame);
        frame.extend_from_slice(chunk);
        let parsed = parse_frames(&frame, self.bytes_max, sink)?;
        frame.drain(..parsed);
        self.frame = frame;
        Ok(())
    }
}

/// Passes the complete frames at the start of the bytes to the sink. Returns their size in bytes.
fn parse_frames<E: From<FrameError>>(
    bytes: &[u8],
    bytes_max: usize,
    sink: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
) -> Result<usize, E> {
    let mut parsed = 0;
    loop {
        let rest = &bytes[parsed..];
        let Some(prelude) = rest.first_chunk::<PRELUDE>() else {
            return Ok(parsed);
        };
        let total = frame_length(prelude, bytes_max)?;
        let Some(frame) = rest.get(..total) else {
            return Ok(parsed);
        };
        sink(parse_frame(frame)?)?;
        parsed += total;
    }
}

/// Returns the size of a frame. It verifies the checksum of the prelude, because a wrong size would make the parser
/// wait for bytes that never come.
fn frame_length(prelude: &[u8; PRELUDE], bytes_max: usize) -> Result<usize, FrameError> {
    let total = read_u32(prelude, 0) as usize;
    if crc32fast::hash(&prelude[..8]) != read_u32(prelude, 8) {
        // A response that is not an event stream has a wrong checksum here too. ASCII text is most likely a web page.
        return Err(match prelude.is_ascii() {
            true => FrameError::Malformed,
            false => FrameError::Checksum,
        });
    }
    let headers = read_u32(prelude, 4) as usize;
    if total > bytes_max {
        return Err(FrameError::TooLarge);
    }
    match total < FRAME_MIN || headers > total - FRAME_MIN {
        true => Err(FrameError::Malformed),
        false => Ok(total),
    }
}

/// Parses a complete frame. Returns an error if its checksum or its headers are invalid.
fn parse_frame(frame: &[u8]) -> Result<SseEvent<'_>, FrameError> {
    let (body, checksum) = frame.split_at(frame.len() - 4);
    if crc32fast::hash(body) != read_u32(checksum, 0) {
        return Err(FrameError::Checksum);
    }
    let headers_end = PRELUDE + read_u32(frame, 4) as usize;
    let event = event_name(&body[PRELUDE..headers_end])?;
    Ok(SseEvent { event, data: &body[headers_end..] })
}

/// Returns the name of the event from the headers.
fn event_name(mut headers: &[u8]) -> Result<&[u8], FrameError> {
    let mut event: &[u8] = b"";
    while let Some((&name_length, rest)) = headers.split_first() {
        let (name, rest) = split(rest, usize::from(name_length))?;
        let (&kind, rest) = rest.split_first().ok_or(FrameError::Malformed)?;
        let (size, rest) = match kind {
            // True and false have no value after the type code.
            0 | 1 => (0, rest),
            2 => (1, rest),
            3 => (2, rest),
            4 => (4, rest),
            5 | 8 => (8, rest),
            6 | STRING => {
                let (size, rest) = split(rest, 2)?;
                (usize::from(u16::from_be_bytes([size[0], size[1]])), rest)
            }
            9 => (16, rest),
            _ => return Err(FrameError::Malformed),
        };
        let (value, rest) = split(rest, size)?;
        if kind == STRING && matches!(name, b":event-type" | b":exception-type" | b":error-code") {
            event = value;
        }
        headers = rest;
    }
    Ok(event)
}

/// Splits the bytes at a position. Returns an error if there are fewer bytes.
fn split(bytes: &[u8], at: usize) -> Result<(&[u8], &[u8]), FrameError> {
    bytes.split_at_checked(at).ok_or(FrameError::Malformed)
}

/// Reads a big-endian number. Returns 0 if the bytes end before it.
fn read_u32(bytes: &[u8], at: usize) -> u32 {
    let mut array = [0; 4];
    if let Some(slice) = bytes.get(at..at + 4) {
        array.copy_from_slice(slice);
    }
    u32::from_be_bytes(array)
}
