//! Starts a program in a warm container: a shell in the container reads a script and executes the program.

use tokio::io::AsyncWriteExt as _;

use super::engine::ContainerCommand;
use crate::error::IsolationError;
use crate::linux::layout;
use crate::process::SandboxedProcess;

/// Last line of the script. An argument that contains this line is rejected.
const END: &str = "# provost: end of the start script";
/// Exit code of the shell if the program does not exist. Engines use the same code.
pub(super) const EXIT_NOT_FOUND: i32 = 125;

/// Returns the command of a warm container: a shell that waits for the script and leaves the remaining input to the
/// program.
pub(super) fn waiting_shell() -> ContainerCommand {
    let script = format!(
        "w=; while IFS= read -r l; do [ \"$l\" = '{END}' ] && eval \"unset w l; $w\"; w=\"$w$l\n\"; done"
    );
    let env = [("PATH".to_owned(), layout::PATH.to_owned())].into();
    ContainerCommand {
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        env,
        dir: "/".into(),
    }
}

/// Sends a program to the shell that waits in a warm container. Fails if the container has ended.
pub(super) async fn start(
    running: &mut SandboxedProcess,
    command: &ContainerCommand,
) -> Result<(), IsolationError> {
    let script = script(command)?;
    let Some(stdin) = running.stdin_mut() else {
        return Err(IsolationError::Invalid("the warm container has no standard input".to_owned()));
    };
    let sent = async {
        stdin.write_all(&script).await?;
        stdin.flush().await
    };
    sent.await.map_err(IsolationError::io("the warm container is gone"))
}

/// Returns the script that makes the shell execute the program.
fn script(command: &ContainerCommand) -> Result<Vec<u8>, IsolationError> {
    let mut script = b"cd ".to_vec();
    quote(&mut script, command.dir.as_os_str().as_encoded_bytes());
    script.extend_from_slice(b" || exit 125\n");
    for (name, value) in &command.env {
        script.extend_from_slice(format!("export {name}=").as_bytes());
        quote(&mut script, value.as_bytes());
        script.push(b'\n');
    }
    let program = command.program.as_encoded_bytes();
    script.extend_from_slice(b"command -v ");
    quote(&mut script, program);
    script.extend_from_slice(b" >/dev/null || { echo 'program not found' >&2; exit 125; }\nexec");
    for word in std::iter::once(&command.program).chain(&command.args) {
        script.push(b' ');
        quote(&mut script, word.as_encoded_bytes());
    }
    script.push(b'\n');
    if script.split(|byte| *byte == b'\n').any(|line| line == END.as_bytes()) {
        return Err(IsolationError::Invalid(
            "an argument contains the reserved last line of the start script".to_owned(),
        ));
    }
    script.extend_from_slice(END.as_bytes());
    script.push(b'\n');
    Ok(script)
}

/// Appends a word in single quotes, so that the shell does not interpret it.
fn quote(script: &mut Vec<u8>, word: &[u8]) {
    script.push(b'\'');
    for byte in word {
        match byte {
            b'\'' => script.extend_from_slice(b"'\\''"),
            other => script.push(*other),
        }
    }
    script.push(b'\'');
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    /// Runs the script in a local shell. Returns the output and the exit code.
    fn run_script(command: &ContainerCommand, input: &str) -> (String, Option<i32>) {
        let ContainerCommand { program, args, .. } = waiting_shell();
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&script(command).unwrap()).unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        let done = child.wait_with_output().unwrap();
        (String::from_utf8(done.stdout).unwrap(), done.status.code())
    }

    fn command(program: &str, args: &[&str]) -> ContainerCommand {
        ContainerCommand {
            program: program.into(),
            args: args.iter().map(Into::into).collect(),
            env: [("A".to_owned(), "it's $HOME `x`\nnext".to_owned())].into(),
            dir: "/tmp".into(),
        }
    }

    #[test]
    fn a_shell_becomes_the_program_and_leaves_it_its_input() {
        let nasty = "a b; $(id) 'q' \"r\" \\ \n * \\n -n";
        let (out, code) = run_script(&command("printf", &["[%s]", nasty, ""]), "");
        assert_eq!((out, code), (format!("[{nasty}][]"), Some(0)));
        let commands = "pwd; printf '%s|' \"$A\" \"$w\" \"$l\"; cat; exit 7";
        let (out, code) = run_script(&command("sh", &["-c", commands]), "in\nput");
        assert_eq!((out.as_str(), code), ("/tmp\nit's $HOME `x`\nnext|||in\nput", Some(7)));
        assert_eq!(run_script(&command("no-such-program", &[]), "").1, Some(EXIT_NOT_FOUND));
        assert!(script(&command("echo", &[&format!("x\n{END}\ny")])).is_err());
    }
}
