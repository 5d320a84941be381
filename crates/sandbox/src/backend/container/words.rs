//! What starts a program in a container that waits: a shell in it reads these words, and becomes the program.

use tokio::io::AsyncWriteExt as _;

use super::engine::Launch;
use crate::error::IsolationError;
use crate::linux::layout;
use crate::process::Running;

/// What ends the words that start a program; an argument that holds this line is refused.
const END: &str = "# provost: end of the words that start the program";
/// The code with which the shell says that there is no such program. Engines say the same with it.
pub(super) const MISSING: i32 = 125;

/// A shell that waits for the words that start a program, and leaves everything behind them to the program.
pub(super) fn waiting() -> Launch {
    let script = format!(
        "w=; while IFS= read -r l; do [ \"$l\" = '{END}' ] && eval \"unset w l; $w\"; w=\"$w$l\n\"; done"
    );
    let env = [("PATH".to_owned(), layout::PATH.to_owned())].into();
    Launch { program: "sh".into(), args: vec!["-c".into(), script.into()], env, dir: "/".into() }
}

/// Starts a program in a container that waits.
pub(super) async fn start(running: &mut Running, launch: &Launch) -> Result<(), IsolationError> {
    let words = words(launch)?;
    let Some(stdin) = running.stdin_mut() else {
        return Err(IsolationError::Job("a container that waits does not listen".to_owned()));
    };
    let sent = async {
        stdin.write_all(&words).await?;
        stdin.flush().await
    };
    sent.await.map_err(IsolationError::io("a container that waited is gone"))
}

/// What the shell reads to become a program.
fn words(launch: &Launch) -> Result<Vec<u8>, IsolationError> {
    let mut words = b"cd ".to_vec();
    quote(&mut words, launch.dir.as_os_str().as_encoded_bytes());
    words.extend_from_slice(b" || exit 125\n");
    for (name, value) in &launch.env {
        words.extend_from_slice(format!("export {name}=").as_bytes());
        quote(&mut words, value.as_bytes());
        words.push(b'\n');
    }
    let program = launch.program.as_encoded_bytes();
    words.extend_from_slice(b"command -v ");
    quote(&mut words, program);
    words.extend_from_slice(
        b" >/dev/null || { echo 'there is no such program' >&2; exit 125; }\nexec",
    );
    for word in std::iter::once(&launch.program).chain(&launch.args) {
        words.push(b' ');
        quote(&mut words, word.as_encoded_bytes());
    }
    words.push(b'\n');
    if words.split(|byte| *byte == b'\n').any(|line| line == END.as_bytes()) {
        return Err(IsolationError::Job(
            "an argument holds a line that is not for programs".to_owned(),
        ));
    }
    words.extend_from_slice(END.as_bytes());
    words.push(b'\n');
    Ok(words)
}

/// A word in which nothing means anything to a shell.
fn quote(words: &mut Vec<u8>, word: &[u8]) {
    words.push(b'\'');
    for byte in word {
        match byte {
            b'\'' => words.extend_from_slice(b"'\\''"),
            other => words.push(*other),
        }
    }
    words.push(b'\'');
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    /// What a shell becomes that is told these words, and what it leaves for the program.
    fn said(launch: &Launch, input: &str) -> (String, Option<i32>) {
        let Launch { program, args, .. } = waiting();
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&words(launch).unwrap()).unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        let done = child.wait_with_output().unwrap();
        (String::from_utf8(done.stdout).unwrap(), done.status.code())
    }

    fn launch(program: &str, args: &[&str]) -> Launch {
        Launch {
            program: program.into(),
            args: args.iter().map(Into::into).collect(),
            env: [("A".to_owned(), "it's $HOME `x`\nnext".to_owned())].into(),
            dir: "/tmp".into(),
        }
    }

    #[test]
    fn a_shell_becomes_the_program_and_leaves_it_its_input() {
        let nasty = "a b; $(id) 'q' \"r\" \\ \n * \\n -n";
        let (out, code) = said(&launch("printf", &["[%s]", nasty, ""]), "");
        assert_eq!((out, code), (format!("[{nasty}][]"), Some(0)));
        let script = "pwd; printf '%s|' \"$A\" \"$w\" \"$l\"; cat; exit 7";
        let (out, code) = said(&launch("sh", &["-c", script]), "in\nput");
        assert_eq!((out.as_str(), code), ("/tmp\nit's $HOME `x`\nnext|||in\nput", Some(7)));
        assert_eq!(said(&launch("no-such-program", &[]), "").1, Some(MISSING));
        assert!(words(&launch("echo", &[&format!("x\n{END}\ny")])).is_err());
    }
}
