//! Programs that run other programs. A rule that names only such a program does not match.
//!
//! A rule for `env` would allow everything, because `env rm` runs `rm`. Such a program matches only a rule that lists
//! all of its arguments. Other programs run something only with certain options and are then treated the same way.

use super::parse::Command;

/// Programs that execute their arguments or interpret a language.
const INDIRECT_EXEC: &[&str] = &[
    ".",
    "alias",
    "ansible",
    "apptainer",
    "ash",
    "at",
    "awk",
    "bash",
    "batch",
    "bpftrace",
    "builtin",
    "bun",
    "busybox",
    "bwrap",
    "capsh",
    "cargo",
    "cc",
    "chroot",
    "chrt",
    "clang",
    "cmake",
    "command",
    "coproc",
    "cpulimit",
    "crontab",
    "csh",
    "ctest",
    "dash",
    "dc",
    "deno",
    "docker",
    "doas",
    "ed",
    "emacs",
    "enable",
    "entr",
    "env",
    "eval",
    "ex",
    "exec",
    "expect",
    "export",
    "faketime",
    "fakeroot",
    "fish",
    "flock",
    "ftp",
    "g++",
    "gawk",
    "gcc",
    "gdb",
    "go",
    "gradle",
    "hash",
    "ionice",
    "ipython",
    "irb",
    "java",
    "jjs",
    "jshell",
    "julia",
    "just",
    "ksh",
    "ld",
    "ld.so",
    "less",
    "lftp",
    "lldb",
    "local",
    "logsave",
    "ltrace",
    "lua",
    "luajit",
    "m4",
    "make",
    "man",
    "mawk",
    "mc",
    "mksh",
    "more",
    "most",
    "mount",
    "mysql",
    "nano",
    "nawk",
    "nc",
    "ncat",
    "netcat",
    "nice",
    "ninja",
    "nmap",
    "node",
    "nohup",
    "npm",
    "npx",
    "nsenter",
    "numactl",
    "nvim",
    "ocaml",
    "octave",
    "openssl",
    "osascript",
    "parallel",
    "parset",
    "perl",
    "pg",
    "php",
    "pip",
    "pip3",
    "pipx",
    "pkexec",
    "pnpm",
    "podman",
    "poetry",
    "prlimit",
    "proot",
    "psql",
    "pwsh",
    "pypy",
    "pypy3",
    "python",
    "python2",
    "python3",
    "R",
    "rbash",
    "read",
    "readonly",
    "rlwrap",
    "rpm",
    "Rscript",
    "rsync",
    "ruby",
    "run-parts",
    "runc",
    "runcon",
    "runuser",
    "rustc",
    "rvim",
    "scala",
    "scp",
    "screen",
    "script",
    "scriptlive",
    "sed",
    "set",
    "setarch",
    "setpriv",
    "setsid",
    "sftp",
    "sg",
    "sh",
    "slsh",
    "smbclient",
    "socat",
    "softlimit",
    "source",
    "split",
    "sqlite3",
    "ssh",
    "ssh-agent",
    "sshpass",
    "start-stop-daemon",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemctl",
    "systemd-run",
    "tar",
    "taskset",
    "tclsh",
    "tcpdump",
    "tcsh",
    "telnet",
    "time",
    "timeout",
    "tmux",
    "toybox",
    "trap",
    "ts-node",
    "tsc",
    "tsx",
    "typeset",
    "declare",
    "ulimit",
    "unset",
    "unshare",
    "unzip",
    "uv",
    "uvx",
    "valgrind",
    "vi",
    "vigr",
    "view",
    "vim",
    "vimdiff",
    "vipw",
    "visudo",
    "w3m",
    "watch",
    "wget",
    "wish",
    "xargs",
    "xdg-open",
    "xvfb-run",
    "yarn",
    "yash",
    "zip",
    "zsh",
    "zypper",
    "apt",
    "apt-get",
    "dpkg",
    "dnf",
    "yum",
    "pacman",
    "gem",
    "bundle",
    "rake",
    "mvn",
    "ant",
    "sbt",
    "kubectl",
    "helm",
    "terraform",
    "curl",
    "dd",
    "tee",
    "install",
    "wait",
    "fc",
    "bind",
    "complete",
    "mapfile",
    "readarray",
    "getopts",
    "ip",
    "dmesg",
    "service",
    "nft",
    "iptables",
    "setfacl",
    "ncdu",
    "ranger",
    "choom",
];

/// Programs that may have a version suffix: `python3.11`, `perl5.36.0`, `gcc-12`.
const VERSIONED: &[&str] =
    &["python", "perl", "ruby", "node", "php", "lua", "gcc", "g++", "clang", "ld", "pypy", "tclsh"];

/// Programs that run something or write a file with certain options: long options, which may be abbreviated, and
/// letters of short options.
const OPTIONS: &[(&str, &[&str], &str)] = &[
    (
        "find",
        &[
            "-exec",
            "-execdir",
            "-ok",
            "-okdir",
            "-delete",
            "-fprint",
            "-fprint0",
            "-fprintf",
            "-fls",
            "-files0-from",
        ],
        "",
    ),
    (
        "git",
        &[
            "--config-env",
            "--exec-path",
            "--upload-pack",
            "--receive-pack",
            "--ext-diff",
            "--textconv",
            "--open-files-in-pager",
            "--paginate",
            "--exec",
            "--extcmd",
            "--tool",
            "--output",
            "--template",
            "--git-dir",
            "--work-tree",
            "--namespace",
            "--super-prefix",
            "--upload-archive",
            "--sign",
            "--gpg-sign",
            "--edit",
        ],
        "O",
    ),
    ("rg", &["--pre", "--hostname-bin", "--search-zip"], "z"),
    ("fd", &["--exec", "--exec-batch"], "xX"),
    ("fdfind", &["--exec", "--exec-batch"], "xX"),
    ("sort", &["--compress-program", "--output", "--temporary-directory"], "oT"),
    ("printf", &["-v"], "v"),
    ("date", &["--set"], "s"),
    ("tree", &["--output"], "oR"),
    ("diff", &["--to-file"], ""),
    ("file", &["--compile", "--magic-file"], "Cm"),
    ("hostname", &["--file"], "Fb"),
];

/// Subcommands of `git` that neither run nor change anything.
const GIT_READS: &[&str] = &[
    "blame",
    "cat-file",
    "describe",
    "diff",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "show-ref",
    "status",
    "version",
];

/// Returns true if a command runs or may run another program that its arguments name.
pub(crate) fn runs_other_programs(command: &Command) -> bool {
    let path = command.name();
    let name = path.rsplit('/').next().unwrap_or(path);
    if INDIRECT_EXEC.contains(&name)
        || is_versioned(name)
        || name.starts_with("ld-")
        || name.contains(".so")
    {
        return true;
    }
    if name == "git" {
        let first = command.args().iter().find(|word| !word.text.starts_with('-'));
        let is_read = first.is_some_and(|word| GIT_READS.contains(&word.text.as_str()));
        // Options before the subcommand apply to `git` itself and can change the meaning of the subcommand.
        let leads = command
            .args()
            .first()
            .is_some_and(|word| word.text.starts_with('-') && word.text != "--version");
        if leads || !(is_read || command.args().iter().all(|word| word.text == "--version")) {
            return true;
        }
    }
    let known = OPTIONS.iter().find(|(known, ..)| *known == name);
    let Some((_, long, short)) = known else { return false };
    let mut is_file = false;
    command.args().iter().any(|word| {
        // A pattern may expand to a file name that looks like an option.
        let runs_other_programs = !is_file
            && (is_option(&word.text, long, short)
                || (word.is_pattern && !word.text.starts_with(['.', '/'])));
        is_file |= word.text == "--" && name != "find";
        runs_other_programs
    })
}

/// Returns true if the name is a known program followed by a version.
fn is_versioned(name: &str) -> bool {
    let rest = VERSIONED.iter().find_map(|known| name.strip_prefix(known));
    rest.is_some_and(|rest| {
        !rest.is_empty()
            && rest.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'))
    })
}

/// Returns true if the word is one of the options. Long options can be abbreviated, and short options can be combined.
fn is_option(text: &str, long: &[&str], short: &str) -> bool {
    let name = text.split('=').next().unwrap_or(text);
    let is_long = long.iter().any(|known| match known.starts_with("--") {
        // An abbreviated option is equivalent to the full one.
        true => name.len() > 2 && name.starts_with("--") && known.starts_with(name),
        false => *known == name,
    });
    let is_short = text.starts_with('-')
        && !text.starts_with("--")
        && text[1..].chars().any(|letter| short.contains(letter));
    is_long || is_short
}
