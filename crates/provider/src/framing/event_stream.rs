//! The binary frames of AWS: a length, headers, a payload, and a checksum over each part.
//!
//! ```text
//! total length (4) | length of headers (4) | CRC of these 8 bytes (4) | headers | payload | CRC of all before (4)
//! ```

use super::FrameError;
use crate::wire::SseEvent;

/// Bytes before the headers.
const PRELUDE: usize = 12;
/// Bytes of a frame without headers and payload.
const FRAME_MIN: usize = PRELUDE + 4;
/// The kind of a header value that is a string.
const STRING: u8 = 7;

/// Cuts chunks into frames. An event is called what its `:event-type` or `:exception-type` says.
#[derive(Debug)]
pub(super) struct EventStream {
    /// The beginning of a frame whose end has not come yet.
    frame: Vec<u8>,
    bytes_max: usize,
}

impl EventStream {
    pub(super) fn with_limit(bytes_max: usize) -> Self {
        Self { frame: Vec::new(), bytes_max }
    }

    pub(super) fn push<E: From<FrameError>>(
        &mut self,
        chunk: &[u8],
        sink: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.frame.is_empty() {
            let used = drain(chunk, self.bytes_max, sink)?;
            self.frame.extend_from_slice(&chunk[used..]);
            return Ok(());
        }
        let mut frame = std::mem::take(&mut self.frame);
        frame.extend_from_slice(chunk);
        let used = drain(&frame, self.bytes_max, sink)?;
        frame.drain(..used);
        self.frame = frame;
        Ok(())
    }
}

/// Hands out the whole frames at the beginning of the bytes; says how many bytes they have.
fn drain<E: From<FrameError>>(
    bytes: &[u8],
    bytes_max: usize,
    sink: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
) -> Result<usize, E> {
    let mut used = 0;
    loop {
        let rest = &bytes[used..];
        let Some(prelude) = rest.first_chunk::<PRELUDE>() else {
            return Ok(used);
        };
        let total = length(prelude, bytes_max)?;
        let Some(frame) = rest.get(..total) else {
            return Ok(used);
        };
        sink(read(frame)?)?;
        used += total;
    }
}

/// How long the frame is. Checked before anything is waited for: a wrong length would make us wait for ever.
fn length(prelude: &[u8; PRELUDE], bytes_max: usize) -> Result<usize, FrameError> {
    let total = number(prelude, 0) as usize;
    if crc32fast::hash(&prelude[..8]) != number(prelude, 8) {
        // Something that is no event stream at all has a wrong checksum here, too: most likely a page of text.
        return Err(match prelude.is_ascii() {
            true => FrameError::Frame,
            false => FrameError::Checksum,
        });
    }
    let headers = number(prelude, 4) as usize;
    if total > bytes_max {
        return Err(FrameError::TooLarge);
    }
    match total < FRAME_MIN || headers > total - FRAME_MIN {
        true => Err(FrameError::Frame),
        false => Ok(total),
    }
}

fn read(frame: &[u8]) -> Result<SseEvent<'_>, FrameError> {
    let (body, checksum) = frame.split_at(frame.len() - 4);
    if crc32fast::hash(body) != number(checksum, 0) {
        return Err(FrameError::Checksum);
    }
    let headers_end = PRELUDE + number(frame, 4) as usize;
    let event = event_name(&body[PRELUDE..headers_end])?;
    Ok(SseEvent { event, data: &body[headers_end..] })
}

/// What the headers call the event.
fn event_name(mut headers: &[u8]) -> Result<&[u8], FrameError> {
    let mut found: &[u8] = b"";
    while let Some((&name_length, rest)) = headers.split_first() {
        let (name, rest) = cut(rest, usize::from(name_length))?;
        let (&kind, rest) = rest.split_first().ok_or(FrameError::Frame)?;
        let (size, rest) = match kind {
            // True and false have no value behind them.
            0 | 1 => (0, rest),
            2 => (1, rest),
            3 => (2, rest),
            4 => (4, rest),
            5 | 8 => (8, rest),
            6 | STRING => {
                let (size, rest) = cut(rest, 2)?;
                (usize::from(u16::from_be_bytes([size[0], size[1]])), rest)
            }
            9 => (16, rest),
            _ => return Err(FrameError::Frame),
        };
        let (value, rest) = cut(rest, size)?;
        if kind == STRING && matches!(name, b":event-type" | b":exception-type" | b":error-code") {
            found = value;
        }
        headers = rest;
    }
    Ok(found)
}

fn cut(bytes: &[u8], at: usize) -> Result<(&[u8], &[u8]), FrameError> {
    bytes.split_at_checked(at).ok_or(FrameError::Frame)
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    if let Some(found) = bytes.get(at..at + 4) {
        four.copy_from_slice(found);
    }
    u32::from_be_bytes(four)
}
