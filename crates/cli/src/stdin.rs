//! Standard input: bounded, and text.
//!
//! Invariant: whatever is piped in, no more than [`INPUT_BYTES_MAX`] of it is ever held at once.

use std::io::{self, BufRead, IsTerminal, Read};

use tokio::sync::mpsc;

use crate::problem::Problem;

/// Bytes of a question, or of one line of a conversation.
pub(crate) const INPUT_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// Everything there is.
pub(crate) fn read_all(stdin: impl Read) -> Result<String, Problem> {
    let mut bytes = Vec::new();
    stdin
        .take(INPUT_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Problem::io("standard input", &error))?;
    if bytes.len() as u64 > INPUT_BYTES_MAX {
        let what = format!("standard input has more than {INPUT_BYTES_MAX} bytes");
        return Err(Problem::invalid(what).help("send less"));
    }
    text(bytes)
}

/// What is piped in besides a question: a pipe or a file, and nothing else. A terminal, a device or a socket may never end.
pub(crate) fn read_piped() -> Result<Option<String>, Problem> {
    if !is_piped() {
        return Ok(None);
    }
    Ok(Some(read_all(io::stdin().lock())?).filter(|text| !text.trim().is_empty()))
}

#[cfg(unix)]
fn is_piped() -> bool {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileTypeExt;
    // A second descriptor of the same file, only to ask what it is.
    let stdin = io::stdin().as_fd().try_clone_to_owned().map(std::fs::File::from);
    let kind = stdin.and_then(|stdin| stdin.metadata()).map(|found| found.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_file()) && !io::stdin().is_terminal()
}

#[cfg(not(unix))]
fn is_piped() -> bool {
    !io::stdin().is_terminal()
}

/// The next line without its end; `None` at the end.
fn read_line(stdin: &mut impl BufRead) -> Option<Result<String, Problem>> {
    let mut bytes = Vec::new();
    // One more than may be, and the end of the line.
    match stdin.take(INPUT_BYTES_MAX + 2).read_until(b'\n', &mut bytes) {
        Ok(0) => return None,
        Ok(_) => {}
        Err(error) => return Some(Err(Problem::io("standard input", &error))),
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    if bytes.len() as u64 > INPUT_BYTES_MAX {
        let what = format!("a line of standard input has more than {INPUT_BYTES_MAX} bytes");
        return Some(Err(Problem::invalid(what).help("send less in one line")));
    }
    Some(text(bytes))
}

fn text(bytes: Vec<u8>) -> Result<String, Problem> {
    String::from_utf8(bytes).map_err(|error| {
        let what = format!("standard input is not text: {}", error.utf8_error());
        Problem::invalid(what).help("convert it to UTF-8 first")
    })
}

/// Lines from standard input, read by a thread of their own so that a waiting read stops nothing.
#[derive(Default)]
pub(crate) struct Lines {
    reading: Option<mpsc::Receiver<Result<String, Problem>>>,
}

impl Lines {
    /// The next line; `None` at the end, and after an error.
    pub(crate) async fn next(&mut self) -> Option<Result<String, Problem>> {
        let reading = self.reading.get_or_insert_with(|| {
            let (sender, receiver) = mpsc::channel(1);
            std::thread::spawn(move || {
                let mut stdin = io::stdin().lock();
                while let Some(line) = read_line(&mut stdin) {
                    let is_broken = line.is_err();
                    if sender.blocking_send(line).is_err() || is_broken {
                        return;
                    }
                }
            });
            receiver
        });
        reading.recv().await
    }
}

#[cfg(test)]
mod tests {
    use provost_core::ErrorKind;

    use super::*;

    #[test]
    fn standard_input_must_be_bounded_text() {
        assert_eq!(read_all(&b"hi\n"[..]).unwrap(), "hi\n");
        assert!(read_all(&b"\xff"[..]).unwrap_err().what.contains("not text"));
        let large = io::repeat(b'a');
        assert!(read_all(large).unwrap_err().what.contains("more than"));
    }

    #[test]
    fn lines_lose_their_ends_only() {
        let mut stdin = &b"one\r\n\n two\nthree"[..];
        for line in ["one", "", " two", "three"] {
            assert_eq!(read_line(&mut stdin).unwrap().unwrap(), line);
        }
        assert!(read_line(&mut stdin).is_none());
    }

    #[test]
    fn a_line_must_be_bounded_text() {
        let problem = read_line(&mut &b"\xff\n"[..]).unwrap().unwrap_err();
        assert_eq!(problem.kind, ErrorKind::Invalid);
        let mut endless = io::BufReader::new(io::repeat(b'a'));
        let problem = read_line(&mut endless).unwrap().unwrap_err();
        assert_eq!(problem.kind, ErrorKind::Invalid);
        assert!(problem.what.contains("more than"), "{problem}");

        let longest = "a".repeat(usize::try_from(INPUT_BYTES_MAX).unwrap());
        for (line, is_ok) in [(longest.clone(), true), (longest + "a", false)] {
            let line = line + "\nnext";
            assert_eq!(read_line(&mut line.as_bytes()).unwrap().is_ok(), is_ok);
        }
    }
}
