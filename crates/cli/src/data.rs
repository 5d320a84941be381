//! The data directory: where it is, and making it.

use std::path::{Path, PathBuf};

use provost_host::tool::make_private_dir;

use crate::problem::Problem;

/// The variable that names the directory.
pub(crate) const VARIABLE: &str = "PROVOST_DATA";

/// Where the program keeps what belongs to the user: `given`, or what the environment says.
pub(crate) fn dir(
    given: Option<&Path>,
    env: impl Fn(&str) -> Option<String>,
) -> Result<PathBuf, Problem> {
    let named = env(VARIABLE).filter(|dir| !dir.trim().is_empty()).map(PathBuf::from);
    if let Some(dir) = given.map(Path::to_owned).or(named) {
        return std::path::absolute(&dir)
            .map_err(|error| Problem::io("the data directory", &error));
    }
    let absolute = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(data) = absolute("XDG_DATA_HOME") {
        return Ok(data.join("provost"));
    }
    let home = absolute("HOME").or_else(|| absolute("USERPROFILE"));
    match home {
        Some(home) => Ok(home.join(Path::new(".local/share/provost"))),
        None => Err(Problem::invalid("there is no directory for data").help(
            "use --data DIR, or set PROVOST_DATA, or set XDG_DATA_HOME or HOME to an absolute path",
        )),
    }
}

/// The same, from the real environment.
pub(crate) fn real_dir(given: Option<&Path>) -> Result<PathBuf, Problem> {
    dir(given, |name| std::env::var(name).ok())
}

/// Makes the directory, for its owner only; one that is there stays as it is.
pub(crate) fn make(dir: &Path) -> Result<(), Problem> {
    make_private_dir(dir).map_err(|error| {
        Problem::from(error).help("choose another one with --data DIR or PROVOST_DATA")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(given: Option<&str>, pairs: &'static [(&str, &str)]) -> Result<PathBuf, Problem> {
        dir(given.map(Path::new), |name| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_directory_follows_the_flag_and_the_environment() {
        let all = &[("PROVOST_DATA", "/d"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(found(Some("/f"), all).unwrap(), Path::new("/f"));
        assert_eq!(found(None, all).unwrap(), Path::new("/d"));
        assert_eq!(found(None, &all[1..]).unwrap(), Path::new("/x/provost"));
        let blank = &[("PROVOST_DATA", " "), ("XDG_DATA_HOME", "relative"), ("HOME", "/h")];
        assert_eq!(found(None, blank).unwrap(), Path::new("/h/.local/share/provost"));
        assert!(found(Some("here"), &[]).unwrap().is_absolute());
        assert!(found(None, &[]).unwrap_err().help.is_some());
    }

    #[cfg(unix)]
    #[test]
    fn only_its_owner_can_look_into_a_directory_that_is_made() {
        use std::os::unix::fs::PermissionsExt;
        let world = tempfile::tempdir().unwrap();
        let made = world.path().join("a/b");
        make(&made).unwrap();
        assert_eq!(std::fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700);
        make(&made).unwrap();
        std::fs::write(world.path().join("file"), "").unwrap();
        let problem = make(&world.path().join("file/x")).unwrap_err();
        assert!(problem.help.is_some_and(|help| help.contains("--data")));
    }
}
