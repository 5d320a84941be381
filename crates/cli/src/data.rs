//! The data directory: its path, and its creation.

use std::path::{Path, PathBuf};

use provost_host::tool::make_private_dir;

use crate::error::CliError;

/// Environment variable with the path of the data directory.
pub(crate) const VARIABLE: &str = "PROVOST_DATA";

/// Returns the data directory: `flag`, or else the directory that the environment selects. Returns an error if neither
/// selects one.
pub(crate) fn dir(
    flag: Option<&Path>,
    env: impl Fn(&str) -> Option<String>,
) -> Result<PathBuf, CliError> {
    let named = env(VARIABLE).filter(|dir| !dir.trim().is_empty()).map(PathBuf::from);
    if let Some(dir) = flag.map(Path::to_owned).or(named) {
        return std::path::absolute(&dir)
            .map_err(|error| CliError::io("the data directory", &error));
    }
    let absolute = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(data) = absolute("XDG_DATA_HOME") {
        return Ok(data.join("provost"));
    }
    let home = absolute("HOME").or_else(|| absolute("USERPROFILE"));
    match home {
        Some(home) => Ok(home.join(Path::new(".local/share/provost"))),
        None => Err(CliError::invalid("no data directory is configured").hint(
            "use --data-dir DIR, or set PROVOST_DATA, or set XDG_DATA_HOME or HOME to an absolute path",
        )),
    }
}

/// Returns the data directory in the environment of this process.
pub(crate) fn dir_from_env(flag: Option<&Path>) -> Result<PathBuf, CliError> {
    dir(flag, |name| std::env::var(name).ok())
}

/// Creates the directory, accessible only to its owner. An existing directory is not changed.
pub(crate) fn create(dir: &Path) -> Result<(), CliError> {
    make_private_dir(dir).map_err(|error| {
        CliError::from(error).hint("select another directory with --data-dir DIR or PROVOST_DATA")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(given: Option<&str>, pairs: &'static [(&str, &str)]) -> Result<PathBuf, CliError> {
        dir(given.map(Path::new), |name| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_directory_follows_the_flag_and_the_environment() {
        let all = &[("PROVOST_DATA", "/d"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(find(Some("/f"), all).unwrap(), Path::new("/f"));
        assert_eq!(find(None, all).unwrap(), Path::new("/d"));
        assert_eq!(find(None, &all[1..]).unwrap(), Path::new("/x/provost"));
        let blank = &[("PROVOST_DATA", " "), ("XDG_DATA_HOME", "relative"), ("HOME", "/h")];
        assert_eq!(find(None, blank).unwrap(), Path::new("/h/.local/share/provost"));
        assert!(find(Some("here"), &[]).unwrap().is_absolute());
        assert!(find(None, &[]).unwrap_err().hint.is_some());
    }

    #[cfg(unix)]
    #[test]
    fn only_its_owner_can_look_into_a_directory_that_is_made() {
        use std::os::unix::fs::PermissionsExt;
        let world = tempfile::tempdir().unwrap();
        let created = world.path().join("a/b");
        create(&created).unwrap();
        assert_eq!(std::fs::metadata(&created).unwrap().permissions().mode() & 0o777, 0o700);
        create(&created).unwrap();
        std::fs::write(world.path().join("file"), "").unwrap();
        let problem = create(&world.path().join("file/x")).unwrap_err();
        assert!(problem.hint.is_some_and(|hint| hint.contains("--data-dir")));
    }
}
