//! The user's model catalog: properties and prices that take precedence over the catalog that ships with Provost.

use std::path::Path;

use provost_model::Catalog;

use crate::problem::Problem;

/// Environment variable with the path of the user's catalog.
pub(crate) const CATALOG_VARIABLE: &str = "PROVOST_CATALOG";
/// Maximum size of a catalog file in bytes.
const CATALOG_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Reads the catalog of the user, which an environment variable names. Without the variable it is empty.
pub(crate) fn user_catalog() -> Result<Catalog, Problem> {
    let named = std::env::var_os(CATALOG_VARIABLE).filter(|path| !path.is_empty());
    named.map_or_else(|| Ok(Catalog::default()), |path| read_catalog(Path::new(&path)))
}

/// Reads a catalog file in TOML or JSON.
pub(crate) fn read_catalog(path: &Path) -> Result<Catalog, Problem> {
    let what = || format!("the catalog {}", path.display());
    let size = std::fs::metadata(path).map_err(|error| Problem::io(what(), &error))?.len();
    if size > CATALOG_BYTES_MAX {
        return Err(Problem::invalid(format!("{} is too large", what())));
    }
    let text = std::fs::read_to_string(path).map_err(|error| Problem::io(what(), &error))?;
    Catalog::parse(&text).map_err(|error| {
        Problem::invalid(format!("{}: {error}", path.display()))
            .help("see docs/models.md for what a catalog looks like")
    })
}
