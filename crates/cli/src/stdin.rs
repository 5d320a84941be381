//! Standard input as text of limited size.
//!
//! Invariant: at most [`INPUT_BYTES_MAX`] bytes of the input are in memory, apart from a line end.

use std::io::{self, BufRead, IsTerminal, Read};

use tokio::sync::mpsc;

use crate::error::CliError;

/// Maximum size in bytes of a prompt, or of one line of a conversation.
pub(crate) const INPUT_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// Reads standard input to its end. Returns an error if it is too large or not UTF-8.
pub(crate) fn read_all(stdin: impl Read) -> Result<String, CliError> {
    let mut bytes = Vec::new();
    stdin
        .take(INPUT_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| CliError::io("standard input", &error))?;
    if bytes.len() as u64 > INPUT_BYTES_MAX {
        let what = format!("standard input has more than {INPUT_BYTES_MAX} bytes");
        return Err(CliError::invalid(what).hint("send less"));
    }
    text(bytes)
}

/// Reads a pipe or a file on standard input. `None` if the input is blank, or if it is a terminal, a device or a
/// socket, which may never end.
pub(crate) fn read_piped() -> Result<Option<String>, CliError> {
    if !is_piped() {
        return Ok(None);
    }
    Ok(Some(read_all(io::stdin().lock())?).filter(|text| !text.trim().is_empty()))
}

/// Returns true if standard input is a file or a pipe, so that it can be read without a user.
#[cfg(unix)]
fn is_piped() -> bool {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileTypeExt;
    // A file owns its descriptor, so the metadata is read from a duplicate.
    let stdin = io::stdin().as_fd().try_clone_to_owned().map(std::fs::File::from);
    let kind = stdin.and_then(|stdin| stdin.metadata()).map(|found| found.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_file()) && !io::stdin().is_terminal()
}

#[cfg(not(unix))]
fn is_piped() -> bool {
    !io::stdin().is_terminal()
}

/// Reads the next line without its line end. `None` at the end of the input.
fn read_line(stdin: &mut impl BufRead) -> Option<Result<String, CliError>> {
    let mut bytes = Vec::new();
    // One byte more than allowed, to detect a line that is too long, and the line end.
    match stdin.take(INPUT_BYTES_MAX + 2).read_until(b'\n', &mut bytes) {
        Ok(0) => return None,
        Ok(_) => {}
        Err(error) => return Some(Err(CliError::io("standard input", &error))),
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    if bytes.len() as u64 > INPUT_BYTES_MAX {
        let what = format!("a line of standard input has more than {INPUT_BYTES_MAX} bytes");
        return Some(Err(CliError::invalid(what).hint("send less in one line")));
    }
    Some(text(bytes))
}

/// Converts the input to text. Returns an error if it is not UTF-8.
fn text(bytes: Vec<u8>) -> Result<String, CliError> {
    String::from_utf8(bytes).map_err(|error| {
        let what = format!("standard input is not text: {}", error.utf8_error());
        CliError::invalid(what).hint("convert it to UTF-8 first")
    })
}

/// Lines from standard input. A separate thread reads them, so that a blocked read does not block the runtime.
#[derive(Default)]
pub(crate) struct Lines {
    receiver: Option<mpsc::Receiver<Result<String, CliError>>>,
}

impl Lines {
    /// Returns the next line. `None` at the end of the input and after an error.
    pub(crate) async fn next(&mut self) -> Option<Result<String, CliError>> {
        let lines = self.receiver.get_or_insert_with(|| {
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
        lines.recv().await
    }
}

#[cfg(test)]
mod tests {
    use provost_core::ErrorKind;

    use super::*;

    #[test]
    fn standard_input_must_be_bounded_text() {
        assert_eq!(read_all(&b"hi\n"[..]).unwrap(), "hi\n");
        assert!(read_all(&b"\xff"[..]).unwrap_err().message.contains("not text"));
        let large = io::repeat(b'a');
        assert!(read_all(large).unwrap_err().message.contains("more than"));
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
        assert!(problem.message.contains("more than"), "{problem}");

        let longest = "a".repeat(usize::try_from(INPUT_BYTES_MAX).unwrap());
        for (line, is_ok) in [(longest.clone(), true), (longest + "a", false)] {
            let line = line + "\nnext";
            assert_eq!(read_line(&mut line.as_bytes()).unwrap().is_ok(), is_ok);
        }
    }
}
