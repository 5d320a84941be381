//! Sources of modules: a file, a URL, or a stored module.

use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::resource::WasmSpec;
use provost_net::{NetClient, NetRequest, Url};

use crate::limits::{FETCH_TIMEOUT, MODULE_BYTES_MAX};
use crate::module::compiled_cache::{CompiledCache, Sha256, hex, parse_hex, sha256};
use crate::private_dir;

/// Maximum number of redirects. The hash authenticates the module, not its origin.
const REDIRECTS_MAX: u8 = 3;

/// Where a module is stored: in a file, under its hash, or at a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModuleSource {
    /// Canonical path of a file.
    File(PathBuf),
    /// URL of a module.
    Url(Url),
    /// A stored module, by its hash.
    Blob,
}

/// Location of a module, with its expected hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModuleRef {
    pub(crate) source: ModuleSource,
    /// Required hash of the module.
    pub(crate) hash: Option<Sha256>,
}

impl ModuleRef {
    /// Parses the reference of a manifest. Files must be below `dir`. Returns an error if the reference or the hash is
    /// invalid, or if a URL has no hash.
    pub(crate) fn of(spec: &WasmSpec, dir: Option<&Path>) -> Result<Self, ToolContractError> {
        let hash = match &spec.sha256 {
            None => None,
            Some(text) => Some(
                parse_hex(text)
                    .ok_or_else(|| invalid_module("`wasm.sha256` is not a SHA-256 hash"))?,
            ),
        };
        let module = spec.module.trim();
        if let Some(text) = module.strip_prefix("blob:") {
            let named = parse_hex(text.strip_prefix("sha256:").unwrap_or(text));
            let named = named.ok_or_else(|| {
                invalid_module("`blob:` must be followed by the SHA-256 hash of the module")
            })?;
            if hash.is_some_and(|hash| hash != named) {
                return Err(invalid_module(
                    "`wasm.sha256` and the hash of `blob:` differ: use only one",
                ));
            }
            return Ok(Self { source: ModuleSource::Blob, hash: Some(named) });
        }
        if let Some((scheme, _)) = module.split_once("://") {
            if !matches!(scheme, "https" | "http") {
                return Err(invalid_module(
                    "the URL of a module must begin with https:// or http://",
                ));
            }
            let url = Url::parse(module);
            let url = url
                .map_err(|error| invalid_module(&format!("`wasm.module` is not a URL: {error}")))?;
            if hash.is_none() {
                return Err(invalid_module(
                    "a module from a URL needs `wasm.sha256`, because its content may change",
                )
                .detail("field", "wasm.sha256"));
            }
            return Ok(Self { source: ModuleSource::Url(url), hash });
        }
        Ok(Self { source: ModuleSource::File(resolve(dir, Path::new(module))?), hash })
    }

    /// Reads the module, or fetches it and stores it in the cache. Returns an error if its hash does not match.
    pub(crate) async fn load(
        &self,
        net: &NetClient,
        cache: Option<&CompiledCache>,
    ) -> Result<Vec<u8>, ToolContractError> {
        let cached =
            self.hash.as_ref().and_then(|hash| cache.and_then(|cache| cache.find_module(hash)));
        match (&self.source, cached) {
            (ModuleSource::File(path), _) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read(&path)).await;
                self.verify_hash(read.map_err(|error| invalid_module(&error.to_string()))??)
            }
            (_, Some(bytes)) => Ok(bytes),
            (ModuleSource::Blob, None) => {
                let hash = self.hash.as_ref().map(hex).unwrap_or_default();
                Err(invalid_module(&format!("no module with SHA-256 {hash} is stored")))
            }
            (ModuleSource::Url(url), None) => {
                let bytes = self.verify_hash(fetch(net, url).await?)?;
                if let Some(cache) = cache
                    && let Err(error) = cache.store_module(&bytes)
                {
                    tracing::warn!(%error, "cannot store a module; it will be fetched again");
                }
                Ok(bytes)
            }
        }
    }

    /// Reads the module without a network request. `None` if it would have to be fetched.
    pub(crate) fn load_local(
        &self,
        cache: Option<&CompiledCache>,
    ) -> Result<Option<Vec<u8>>, ToolContractError> {
        match &self.source {
            ModuleSource::File(path) => self.verify_hash(read(path)?).map(Some),
            ModuleSource::Url(_) | ModuleSource::Blob => Ok(self
                .hash
                .as_ref()
                .and_then(|hash| cache.and_then(|cache| cache.find_module(hash)))),
        }
    }

    /// Returns the bytes unchanged. Returns an error if their hash is not the declared hash.
    fn verify_hash(&self, bytes: Vec<u8>) -> Result<Vec<u8>, ToolContractError> {
        let found = sha256(&bytes);
        match self.hash {
            Some(hash) if hash != found => Err(invalid_module(&format!(
                "the module has SHA-256 {}, but {} is declared",
                hex(&found),
                hex(&hash)
            ))
            .detail("field", "wasm.sha256")),
            _ => Ok(bytes),
        }
    }
}

/// Reads a file up to the maximum size.
fn read(path: &Path) -> Result<Vec<u8>, ToolContractError> {
    let read = File::open(path).and_then(|file| private_dir::read_bounded(file, MODULE_BYTES_MAX));
    read.map_err(|error| invalid_module(&format!("cannot read `{}`: {error}", display_name(path))))
}

/// Fetches a module from a URL.
async fn fetch(net: &NetClient, url: &Url) -> Result<Vec<u8>, ToolContractError> {
    let deadline = Instant::now() + FETCH_TIMEOUT;
    let request =
        NetRequest { redirects_max: REDIRECTS_MAX, ..NetRequest::get(url.clone(), deadline) };
    let fetch_error = |error: provost_net::NetError| {
        let message = format!("cannot fetch the module: {error}");
        match error {
            provost_net::NetError::Refused { .. } => {
                ToolContractError::new(ToolErrorCode::PermissionDenied, message)
            }
            error if error.retryable() => {
                ToolContractError::new(ToolErrorCode::ExecutionFailed, message)
            }
            _ => invalid_module(&message),
        }
    };
    let answer = net.send(request).await.map_err(fetch_error)?;
    if !answer.status.is_success() {
        let message = format!(
            "cannot fetch the module: the server responded with {}",
            answer.status.as_u16()
        );
        let fault = invalid_module(&message);
        let is_transient = answer.status.is_server_error();
        return Err(if is_transient {
            ToolContractError::new(ToolErrorCode::ExecutionFailed, message)
        } else {
            fault
        });
    }
    let bytes_max = usize::try_from(MODULE_BYTES_MAX).unwrap_or(usize::MAX);
    Ok(answer.bytes(bytes_max).await.map_err(fetch_error)?.into())
}

/// Returns the path of a file below a directory. Returns an error for a path that leaves the directory.
fn resolve(dir: Option<&Path>, path: &Path) -> Result<PathBuf, ToolContractError> {
    let Some(dir) = dir else {
        return Err(invalid_module(
            "no directory for modules is configured: use a URL or a stored module (`blob:`)",
        ));
    };
    let is_plain =
        path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !is_plain {
        return Err(invalid_module(
            "the path of a module must be relative to the module directory, without `..`",
        ));
    }
    let fetch_error = |error: std::io::Error| {
        invalid_module(&format!("cannot read `{}`: {error}", display_name(path)))
    };
    let root = dir.canonicalize().map_err(fetch_error)?;
    let canonical = root.join(path).canonicalize().map_err(fetch_error)?;
    match canonical.starts_with(&root) {
        true => Ok(canonical),
        false => Err(invalid_module("the path of the module leaves the module directory")),
    }
}

/// Returns the file name of a path for error messages.
fn display_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().chars().take(120).collect()
}

/// Creates the error of an invalid `wasm` section.
pub(crate) fn invalid_module(message: &str) -> ToolContractError {
    ToolContractError::new(ToolErrorCode::RuntimePolicyInvalid, message)
        .detail("field", "wasm.module")
}
