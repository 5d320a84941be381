//! The log on standard error, without the secrets that this process knows.

use std::io::{self, Write};

use provost_redact::Redactor;
use tracing_subscriber::fmt::MakeWriter;

/// Makes a writer for each line.
pub(crate) struct Log(pub(crate) Redactor);

/// One line, which is searched as a whole when it is done.
pub(crate) struct Line {
    redactor: Redactor,
    bytes: Vec<u8>,
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { redactor: self.0.clone(), bytes: Vec::new() }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // Nobody can be told that the log cannot be written.
        io::stderr().write_all(&self.redactor.redact_bytes(&self.bytes)).ok();
    }
}

#[cfg(test)]
mod tests {
    use provost_core::Secret;

    use super::*;

    #[test]
    fn a_line_is_searched_as_a_whole() {
        let redactor = Redactor::new();
        redactor.learn(&Secret::from("swordfish")).unwrap();
        let mut line = Log(redactor).make_writer();
        line.write_all(b"it is sword").unwrap();
        line.write_all(b"fish\n").unwrap();
        assert_eq!(line.redactor.redact_bytes(&line.bytes), &b"it is [REDACTED]\n"[..]);
        line.bytes.clear();
    }
}
