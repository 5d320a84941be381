//! The user's model catalog: properties and prices that take precedence over the catalog that ships with Provost.

use std::path::Path;

use provost_model::ModelCatalog;

use crate::error::CliError;

/// Environment variable with the path of the user's catalog.
pub(crate) const CATALOG_VARIABLE: &str = "PROVOST_CATALOG";
/// Maximum size of a catalog file in bytes.
const CATALOG_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Reads the catalog of the user, which an environment variable names. Without the variable it is empty.
pub(crate) fn user_catalog() -> Result<ModelCatalog, CliError> {
    let named = std::env::var_os(CATALOG_VARIABLE).filter(|path| !path.is_empty());
    named.map_or_else(|| Ok(ModelCatalog::default()), |path| read_catalog(Path::new(&path)))
}

/// Reads a catalog file in TOML or JSON.
pub(crate) fn read_catalog(path: &Path) -> Result<ModelCatalog, CliError> {
    let what = || format!("the catalog {}", path.display());
    let size = std::fs::metadata(path).map_err(|error| CliError::io(what(), &error))?.len();
    if size > CATALOG_BYTES_MAX {
        return Err(CliError::invalid(format!("{} is too large", what())));
    }
    let text = std::fs::read_to_string(path).map_err(|error| CliError::io(what(), &error))?;
    ModelCatalog::parse(&text).map_err(|error| {
        CliError::invalid(format!("{}: {error}", path.display()))
            .hint("docs/reference/models.md describes the format of a catalog")
    })
}
