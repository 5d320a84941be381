//! Where a module comes from: a file, an address, or what is kept under its hash.

use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::resource::WasmSpec;
use provost_net::{NetClient, NetRequest, Url};

use crate::limits::{FETCH_TIMEOUT, MODULE_BYTES_MAX};
use crate::module::compiled_cache::{Cache, Sha256, hex, sha256, unhex};
use crate::private_dir;

/// Redirects on the way to a module; its hash is what is believed, not where it came from.
const REDIRECTS_MAX: u8 = 3;

/// Where a module is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// In a file, in its real place.
    File(PathBuf),
    /// At an address.
    Address(Url),
    /// Here, under its hash.
    Blob,
}

/// A module that can be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) source: Source,
    /// What it must be.
    pub(crate) hash: Option<Sha256>,
}

impl Wanted {
    /// Reads what a manifest says. Files are looked for below `dir`, and nowhere else.
    pub(crate) fn of(spec: &WasmSpec, dir: Option<&Path>) -> Result<Self, ToolContractError> {
        let hash = match &spec.sha256 {
            None => None,
            Some(text) => Some(unhex(text).ok_or_else(|| wrong("`wasm.sha256` is no SHA-256"))?),
        };
        let module = spec.module.trim();
        if let Some(text) = module.strip_prefix("blob:") {
            let named = unhex(text.strip_prefix("sha256:").unwrap_or(text));
            let named = named.ok_or_else(|| wrong("`blob:` needs the SHA-256 of the module"))?;
            if hash.is_some_and(|hash| hash != named) {
                return Err(wrong("`wasm.sha256` and the blob are two modules: write one"));
            }
            return Ok(Self { source: Source::Blob, hash: Some(named) });
        }
        if let Some((scheme, _)) = module.split_once("://") {
            if !matches!(scheme, "https" | "http") {
                return Err(wrong("an address of a module begins with https://"));
            }
            let url = Url::parse(module);
            let url =
                url.map_err(|error| wrong(&format!("`wasm.module` is no address: {error}")))?;
            if hash.is_none() {
                return Err(wrong("a module from an address needs `wasm.sha256`: what comes from there may change")
                    .detail("field", "wasm.sha256"));
            }
            return Ok(Self { source: Source::Address(url), hash });
        }
        Ok(Self { source: Source::File(below(dir, Path::new(module))?), hash })
    }

    /// The module itself, whose hash is what it must be.
    pub(crate) async fn bytes(
        &self,
        net: &NetClient,
        cache: Option<&Cache>,
    ) -> Result<Vec<u8>, ToolContractError> {
        let kept = self.hash.as_ref().and_then(|hash| cache.and_then(|cache| cache.module(hash)));
        match (&self.source, kept) {
            (Source::File(path), _) => {
                let path = path.clone();
                let reading = tokio::task::spawn_blocking(move || read(&path)).await;
                self.checked(reading.map_err(|error| wrong(&error.to_string()))??)
            }
            (_, Some(bytes)) => Ok(bytes),
            (Source::Blob, None) => {
                let hash = self.hash.as_ref().map(hex).unwrap_or_default();
                Err(wrong(&format!("no module with SHA-256 {hash} is kept here")))
            }
            (Source::Address(url), None) => {
                let bytes = self.checked(fetch(net, url).await?)?;
                if let Some(cache) = cache
                    && let Err(error) = cache.keep_module(&bytes)
                {
                    tracing::warn!(%error, "a module cannot be kept and will be fetched again");
                }
                Ok(bytes)
            }
        }
    }

    /// What can be looked at now without asking anybody.
    pub(crate) fn at_hand(
        &self,
        cache: Option<&Cache>,
    ) -> Result<Option<Vec<u8>>, ToolContractError> {
        match &self.source {
            Source::File(path) => self.checked(read(path)?).map(Some),
            Source::Address(_) | Source::Blob => {
                Ok(self.hash.as_ref().and_then(|hash| cache.and_then(|cache| cache.module(hash))))
            }
        }
    }

    fn checked(&self, bytes: Vec<u8>) -> Result<Vec<u8>, ToolContractError> {
        let found = sha256(&bytes);
        match self.hash {
            Some(hash) if hash != found => Err(wrong(&format!(
                "the module is another one: its SHA-256 is {}, declared is {}",
                hex(&found),
                hex(&hash)
            ))
            .detail("field", "wasm.sha256")),
            _ => Ok(bytes),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ToolContractError> {
    let read = File::open(path).and_then(|file| private_dir::bounded(file, MODULE_BYTES_MAX));
    read.map_err(|error| wrong(&format!("`{}` cannot be read: {error}", shown(path))))
}

async fn fetch(net: &NetClient, url: &Url) -> Result<Vec<u8>, ToolContractError> {
    let deadline = Instant::now() + FETCH_TIMEOUT;
    let request =
        NetRequest { redirects_max: REDIRECTS_MAX, ..NetRequest::get(url.clone(), deadline) };
    let lost = |error: provost_net::NetError| {
        let message = format!("the module cannot be fetched: {error}");
        match error {
            provost_net::NetError::Refused { .. } => {
                ToolContractError::new(ToolErrorCode::PermissionDenied, message)
            }
            error if error.retryable() => {
                ToolContractError::new(ToolErrorCode::ExecutionFailed, message)
            }
            _ => wrong(&message),
        }
    };
    let answer = net.send(request).await.map_err(lost)?;
    if !answer.status.is_success() {
        let message =
            format!("the module cannot be fetched: its server answered {}", answer.status.as_u16());
        let fault = wrong(&message);
        let may_pass = answer.status.is_server_error();
        return Err(if may_pass {
            ToolContractError::new(ToolErrorCode::ExecutionFailed, message)
        } else {
            fault
        });
    }
    let bytes_max = usize::try_from(MODULE_BYTES_MAX).unwrap_or(usize::MAX);
    Ok(answer.bytes(bytes_max).await.map_err(lost)?.into())
}

/// The real place of a file below a directory; whatever leads out of it is refused.
fn below(dir: Option<&Path>, path: &Path) -> Result<PathBuf, ToolContractError> {
    let Some(dir) = dir else {
        return Err(wrong("no directory for modules is set up here: name an address or a blob"));
    };
    let is_plain =
        path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !is_plain {
        return Err(wrong(
            "a file of a module is named from the directory of modules on, without `..`",
        ));
    }
    let lost = |error: std::io::Error| wrong(&format!("`{}` cannot be read: {error}", shown(path)));
    let root = dir.canonicalize().map_err(lost)?;
    let real = root.join(path).canonicalize().map_err(lost)?;
    match real.starts_with(&root) {
        true => Ok(real),
        false => Err(wrong("the file of the module leads out of the directory of modules")),
    }
}

fn shown(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().chars().take(120).collect()
}

/// A definition that cannot work.
pub(crate) fn wrong(message: &str) -> ToolContractError {
    ToolContractError::new(ToolErrorCode::RuntimePolicyInvalid, message)
        .detail("field", "wasm.module")
}
