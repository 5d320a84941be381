//! The format of a session file: one line of JSON for each commit, checked by a checksum.
//!
//! `{"crc":"0f3c…","v":1,"revision":3,"pop":0,"live":7,"dead":2,"at":1700000000000,"add":[…]}`
//!
//! The checksum covers every byte after its own field up to the line break. Only what a crash can leave of a commit that
//! never returned is skipped (see [`is_torn`]); any other bad line is damage, the last one too, for it may be a commit that
//! did return. Invariant: nothing here performs I/O.

use std::sync::Arc;

use provost_core::{Message, Timestamp};
use serde::{Deserialize, Serialize};

/// The version of the format.
const VERSION: u16 = 1;

const CRC_OPEN: &[u8] = br#"{"crc":""#;
const CRC_CLOSE: &[u8] = br#"","#;
const CRC_DIGITS: usize = 8;
const BODY_START: usize = CRC_OPEN.len() + CRC_DIGITS + CRC_CLOSE.len();

/// What a line says about the session after it, without the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Head {
    v: u16,
    /// The revision this commit made.
    pub(super) revision: u64,
    /// How many messages it took away first.
    pub(super) pop: usize,
    /// Messages of the session after it.
    pub(super) live: usize,
    /// Messages in the file that no longer count.
    pub(super) dead: usize,
    /// When.
    pub(super) at: Timestamp,
}

impl Head {
    /// The head of the commit after this one.
    pub(super) fn next(self, pop: usize, add: usize, at: Timestamp) -> Self {
        let pop = pop.min(self.live);
        Self {
            v: VERSION,
            revision: self.revision + 1,
            pop,
            live: self.live - pop + add,
            dead: self.dead + pop,
            at,
        }
    }

    /// The same state as the only line of a file.
    pub(super) fn alone(self) -> Self {
        Self { pop: 0, dead: 0, ..self }
    }
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(flatten)]
    head: Head,
    add: &'a [Arc<Message>],
}

#[derive(Deserialize)]
struct Added {
    add: Vec<Arc<Message>>,
}

/// A whole line, its line break included.
pub(super) fn encode(head: Head, add: &[Arc<Message>]) -> Result<Vec<u8>, serde_json::Error> {
    let json = serde_json::to_vec(&Body { head, add })?;
    // The body without its opening brace follows the checksum, so the line as a whole is one JSON object.
    let body = json.get(1..).unwrap_or_default();
    let mut line = Vec::with_capacity(BODY_START + body.len() + 1);
    line.extend_from_slice(CRC_OPEN);
    line.extend_from_slice(format!("{:08x}", crc32(body)).as_bytes());
    line.extend_from_slice(CRC_CLOSE);
    line.extend_from_slice(body);
    line.push(b'\n');
    Ok(line)
}

/// True if the line (without its line break) is as it was written.
pub(super) fn is_sound(line: &[u8]) -> bool {
    let Some((front, body)) = line.split_at_checked(BODY_START) else {
        return false;
    };
    let crc = format!("{:08x}", crc32(body));
    let expected = [CRC_OPEN, crc.as_bytes(), CRC_CLOSE];
    front.iter().eq(expected.into_iter().flatten())
}

/// The head of a sound line.
pub(super) fn head(line: &[u8]) -> Result<Head, Problem> {
    let head: Head = serde_json::from_slice(line).map_err(changed)?;
    if head.v != VERSION {
        return Err(Problem::Version(head.v));
    }
    Ok(head)
}

/// True if these bytes after the last good line are what a crash leaves of a commit that never returned.
///
/// A line is one write whose last byte is its line break, so without that byte it is half a line. The blocks of a write can
/// reach the disk in any order, though: after a power loss the end may be there and a block before it not. Such blocks read
/// as zeros, and a written line never holds a zero byte, since JSON escapes it. A whole line with another last byte is no
/// half line: it was written to its end and changed later.
pub(super) fn is_torn(rest: &[u8]) -> bool {
    has_holes(rest)
        || !rest.ends_with(b"\n") && !rest.split_last().is_some_and(|(_, line)| is_sound(line))
}

/// True if a block of these bytes never reached the disk, or was lost there later: the two look the same.
pub(super) fn has_holes(bytes: &[u8]) -> bool {
    bytes.contains(&0)
}

/// What is wrong with a file, and in which line (from 1).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub(super) line: usize,
    pub(super) problem: Problem,
}

/// What is wrong with a line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    /// It is sound, but of a format that came later.
    #[error("format version {0} is not known, only {VERSION}")]
    Version(u16),
    /// It is not what was written, or not where it was written.
    #[error("{0}")]
    Changed(String),
}

fn changed(what: impl ToString) -> Problem {
    Problem::Changed(what.to_string())
}

/// A file that was read whole.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Log {
    pub(super) messages: Vec<Arc<Message>>,
    pub(super) head: Head,
    /// Bytes up to the end of the last good line; what follows is torn.
    pub(super) sound_bytes: usize,
}

/// Reads a whole file.
pub(super) fn replay(bytes: &[u8]) -> Result<Log, Damage> {
    let mut log = Log::default();
    let lines = bytes.split_inclusive(|&byte| byte == b'\n');
    for (line, number) in lines.zip(1..) {
        let is_last = log.sound_bytes + line.len() == bytes.len();
        if is_last && is_torn(line) {
            break;
        }
        let content = line.strip_suffix(b"\n").filter(|content| is_sound(content));
        let Some(content) = content else {
            return Err(Damage { line: number, problem: changed("the checksum does not match") });
        };
        log.apply(content).map_err(|problem| Damage { line: number, problem })?;
        log.sound_bytes += line.len();
    }
    Ok(log)
}

impl Log {
    fn apply(&mut self, line: &[u8]) -> Result<(), Problem> {
        let head = head(line)?;
        let is_first = self.sound_bytes == 0;
        if !is_first && head.revision != self.head.revision + 1 {
            return Err(changed(format!(
                "revision {} follows revision {}",
                head.revision, self.head.revision
            )));
        }
        let Added { add } = serde_json::from_slice(line).map_err(changed)?;
        let kept = self.messages.len().checked_sub(head.pop);
        if kept.map(|kept| kept + add.len()) != Some(head.live) {
            return Err(changed(format!(
                "the count of messages is wrong: {} less {} plus {} is not {}",
                self.messages.len(),
                head.pop,
                add.len(),
                head.live
            )));
        }
        self.messages.truncate(kept.unwrap_or_default());
        self.messages.extend(add);
        self.head = head;
        Ok(())
    }
}

/// The last line within the end of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// Its head, and the bytes after it that are torn.
    Found { head: Head, torn_bytes: usize },
    /// It begins before `end`, or the file must be read whole to say what is wrong.
    Unclear,
}

/// Finds the last good line in the end of a file without reading the rest; `whole` if `end` is all there is.
pub(super) fn tail(end: &[u8], whole: bool) -> Tail {
    let Some(line_end) = end.iter().rposition(|&byte| byte == b'\n') else {
        return Tail::Unclear;
    };
    let (before, rest) = (&end[..line_end], &end[line_end + 1..]);
    if !rest.is_empty() && !is_torn(rest) {
        return Tail::Unclear;
    }
    let line_start = match before.iter().rposition(|&byte| byte == b'\n') {
        Some(break_at) => break_at + 1,
        None if whole => 0,
        None => return Tail::Unclear,
    };
    let line = &before[line_start..];
    let sound = Some(line).filter(|line| is_sound(line));
    match sound.map(head) {
        Some(Ok(head)) => Tail::Found { head, torn_bytes: rest.len() },
        _ => Tail::Unclear,
    }
}

/// CRC-32 as of IEEE 802.3.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        let place = (crc ^ u32::from(byte)) & 0xff;
        crc = crc >> 8 ^ CRC_TABLE[place as usize];
    }
    !crc
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0u32; 256];
    let mut place = 0;
    while place < 256 {
        let mut value = place as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[place] = value;
        place += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_well_known_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn a_line_is_one_json_object_and_says_when_a_byte_changed() {
        let head = Head::default().next(0, 1, Timestamp::from_millis(5));
        let line = encode(head, &[Arc::new(Message::user("hi"))]).unwrap();
        let content = line.strip_suffix(b"\n").unwrap();
        let value: serde_json::Value = serde_json::from_slice(content).unwrap();
        assert_eq!((&value["revision"], &value["live"]), (&1.into(), &1.into()));
        assert!(is_sound(content));
        for place in 0..content.len() {
            let mut changed = content.to_vec();
            changed[place] ^= 1;
            assert!(!is_sound(&changed), "byte {place}");
        }
    }

    #[test]
    fn the_tail_agrees_with_the_whole() {
        let first = Head::default().next(0, 1, Timestamp::default());
        let mut bytes = encode(first, &[Arc::new(Message::user("one"))]).unwrap();
        let second = first.next(1, 2, Timestamp::default());
        let two = [Message::user("two"), Message::user("three")].map(Arc::new);
        bytes.extend(encode(second, &two).unwrap());
        let log = replay(&bytes).unwrap();
        assert_eq!((log.head, log.messages.len()), (second, 2));
        assert_eq!((second.live, second.dead), (2, 1));
        let found = Tail::Found { head: second, torn_bytes: 0 };
        assert_eq!(tail(&bytes, true), found);
        assert_eq!(tail(&bytes[10..], false), found);
        assert_eq!(tail(&bytes[bytes.len() - 10..], false), Tail::Unclear);
    }

    #[test]
    fn only_what_a_crash_can_leave_is_torn() {
        let head = Head::default().next(0, 1, Timestamp::default());
        let message = Message::user("a\0b\nc");
        let line = encode(head, &[Arc::new(message)]).unwrap();
        assert!(!is_torn(&line) && !has_holes(&line), "zeros of a message are escaped");
        for len in 0..line.len() {
            assert!(is_torn(&line[..len]), "cut at {len}");
        }
        for place in 0..line.len() {
            let mut changed = line.clone();
            changed[place] ^= 1;
            assert!(!is_torn(&changed), "byte {place} changed");
            changed[place] = 0;
            assert!(is_torn(&changed), "byte {place} never reached the disk");
        }
        assert!(!is_torn(b"garbage\n") && !is_torn(b"\n"));
    }

    #[test]
    fn a_sound_line_of_another_version_or_out_of_order_is_damage() {
        let first = Head::default().next(0, 0, Timestamp::default());
        let newer = Head { v: 2, ..first };
        let damage = replay(&encode(newer, &[]).unwrap()).unwrap_err();
        assert_eq!(damage, Damage { line: 1, problem: Problem::Version(2) });
        let mut bytes = encode(first, &[]).unwrap();
        bytes.extend(encode(first, &[]).unwrap());
        let damage = replay(&bytes).unwrap_err();
        assert_eq!(damage, Damage { line: 2, problem: changed("revision 1 follows revision 1") });
        let counted = Head { live: 3, ..first };
        assert!(replay(&encode(counted, &[]).unwrap()).is_err());
    }
}
