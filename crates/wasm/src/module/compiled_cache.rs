//! Cache of compiled modules on disk.
//!
//! A compiled module is machine code: an attacker who can write a file here could run any code in this process. The
//! cache therefore trusts no file. The directory must be private (mode 700, owned by this user, not a link), and so
//! must each file. Each file has an HMAC with a key that was generated for this directory and is stored in it with mode
//! 600. The HMAC covers the hash of the module, the version and settings of the engine, and the code. A file that is
//! damaged, copied from elsewhere, compiled from another module, or written by someone without the key is deleted, and
//! the module is compiled again. An attacker who can read the key runs as this user or as root and does not need the
//! cache to run code.

use std::fs;
use std::hash::{Hash as _, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use provost_core::Env;
use ring::{digest, hmac};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::error::WasmError;
use crate::limits::{COMPILED_BYTES_MAX, MODULE_BYTES_MAX};
use crate::private_dir;

/// SHA-256 hash of a module.
pub(crate) type Sha256 = [u8; 32];

/// Size of the signing key.
const KEY_BYTES: usize = 32;
/// Size of a signature.
const TAG_BYTES: usize = 32;
/// Maximum number of files. The oldest files are removed.
const FILES_MAX: usize = 512;
/// Maximum size of all files, in bytes.
const BYTES_MAX: u64 = 2 << 30;

/// A compiled core module or component.
#[derive(Clone)]
pub(crate) enum CompiledModule {
    Core(wasmtime::Module),
    Component(Component),
}

impl CompiledModule {
    /// Returns the engine for which the module was compiled. Only this engine can run it.
    fn engine(&self) -> &Engine {
        match self {
            Self::Core(module) => module.engine(),
            Self::Component(component) => component.engine(),
        }
    }
}

/// Key of a compiled module: the hash of the module, and the version and settings of the engine.
#[derive(Clone, Copy)]
struct CacheKey<'a> {
    module: &'a Sha256,
    engine: &'a Sha256,
}

/// Directory of compiled modules, and of modules by their hash. Compiled code is signed, because executing forged code
/// would bypass the sandbox.
pub(crate) struct CompiledCache {
    compiled: PathBuf,
    modules: PathBuf,
    key: hmac::Key,
    env: Env,
}

impl CompiledCache {
    /// Opens a directory. Creates it if it does not exist. Returns an error if other users can access it.
    pub(crate) fn open(dir: &Path, env: Env) -> Result<Self, WasmError> {
        let (compiled, modules) = (dir.join("compiled"), dir.join("modules"));
        for dir in [dir, &compiled, &modules] {
            private_dir::create_dir(dir)?;
        }
        let key = read_or_create_key(&dir.join("key"), &env).map_err(|error| WasmError::Cache {
            path: dir.display().to_string(),
            reason: format!("its key is unusable: {error}"),
        })?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        Ok(Self { compiled, modules, key, env })
    }

    /// Returns a module that this installation compiled for the engine. `None` if there is none. A file with an invalid
    /// signature is logged and deleted.
    pub(crate) fn find(
        &self,
        engine: &Engine,
        module: &Sha256,
        is_component: bool,
    ) -> Option<CompiledModule> {
        let cache_key = CacheKey { module, engine: &fingerprint(engine) };
        let path = self.path(cache_key);
        let bytes = match private_dir::read(&path, COMPILED_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "cannot read a compiled module");
                return None;
            }
        };
        let compiled = self
            .verified_code(cache_key, &bytes)
            .and_then(|code| deserialize(engine, code, is_component));
        if compiled.is_none() {
            tracing::warn!(path = %path.display(), "a compiled module is damaged or was not compiled by this installation; compiling it again");
            fs::remove_file(&path).unwrap_or_default();
        }
        compiled
    }

    /// Signs and stores a compiled module, then deletes the oldest files beyond the limits. An error is logged: it only
    /// costs time later.
    pub(crate) fn store(&self, module: &Sha256, compiled: &CompiledModule) {
        let code = match compiled {
            CompiledModule::Core(module) => module.serialize(),
            CompiledModule::Component(component) => component.serialize(),
        };
        let Ok(code) = code else { return };
        let cache_key = CacheKey { module, engine: &fingerprint(compiled.engine()) };
        let mut bytes = self.tag(cache_key, &code).as_ref().to_vec();
        bytes.extend_from_slice(&code);
        if let Err(error) = private_dir::write_atomic(&self.path(cache_key), &bytes, &self.env) {
            tracing::warn!(%error, "cannot store a compiled module");
        }
        self.evict();
    }

    /// Returns the module with a hash. `None` if it is not stored or, after a warning, if its content does not match
    /// the hash.
    pub(crate) fn find_module(&self, hash: &Sha256) -> Option<Vec<u8>> {
        let path = self.modules.join(hex(hash)).with_extension("wasm");
        let bytes = private_dir::read(&path, MODULE_BYTES_MAX).ok()?;
        let is_match = sha256(&bytes) == *hash;
        if !is_match {
            tracing::warn!(path = %path.display(), "the content of a module does not match its hash; ignoring it");
        }
        is_match.then_some(bytes)
    }

    /// Stores a module under its hash, and returns the hash.
    pub(crate) fn store_module(&self, bytes: &[u8]) -> io::Result<Sha256> {
        let hash = sha256(bytes);
        let path = self.modules.join(hex(&hash)).with_extension("wasm");
        private_dir::write_atomic(&path, bytes, &self.env)?;
        // Synced, because a manifest that names a module only by its hash cannot restore it.
        fs::File::open(&path)?.sync_all()?;
        Ok(hash)
    }

    /// Returns the path of a compiled module.
    fn path(&self, cache_key: CacheKey<'_>) -> PathBuf {
        self.compiled.join(format!("{}-{}", hex(cache_key.module), &hex(cache_key.engine)[..16]))
    }

    /// Returns the signature of compiled code.
    fn tag(&self, cache_key: CacheKey<'_>, code: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.key);
        for part in [cache_key.module, cache_key.engine, code] {
            context.update(part);
        }
        context.sign()
    }

    /// Returns the code of a file. `None` if its signature is invalid.
    fn verified_code<'a>(&self, cache_key: CacheKey<'_>, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (tag, code) = bytes.split_at_checked(TAG_BYTES)?;
        // Compares the tags in constant time.
        let expected = self.tag(cache_key, code);
        let difference = tag
            .iter()
            .zip(expected.as_ref())
            .fold(0, |differs, (one, other)| differs | (one ^ other));
        (difference == 0).then_some(code)
    }

    /// Deletes the oldest files beyond the limits.
    fn evict(&self) {
        let Ok(entries) = fs::read_dir(&self.compiled) else { return };
        let entries_by_age = entries.flatten().filter_map(|entry| {
            let compiled = entry.metadata().ok()?;
            Some((compiled.modified().ok()?, compiled.len(), entry.path()))
        });
        let mut files: Vec<_> = entries_by_age.collect();
        files.sort_unstable();
        let (mut count, mut bytes) =
            (files.len(), files.iter().map(|(_, size, _)| size).sum::<u64>());
        for (_, size, path) in files {
            if count <= FILES_MAX && bytes <= BYTES_MAX {
                break;
            }
            fs::remove_file(path).unwrap_or_default();
            (count, bytes) = (count - 1, bytes - size);
        }
    }
}

/// Deserializes a module from verified code.
#[expect(
    unsafe_code,
    reason = "machine code cannot be validated by inspection, only by its origin"
)]
fn deserialize(engine: &Engine, code: &[u8], is_component: bool) -> Option<CompiledModule> {
    // SAFETY: `deserialize` requires bytes that `serialize` of the same engine version and settings produced.
    // `verified_code` has checked an HMAC over exactly these bytes, this module and this engine, with a key that only
    // this installation has; so the code is the unchanged output of `serialize`.
    let module = unsafe {
        match is_component {
            true => Component::deserialize(engine, code).map(CompiledModule::Component),
            false => wasmtime::Module::deserialize(engine, code).map(CompiledModule::Core),
        }
    };
    module.ok()
}

/// Reads the signing key of a directory, or generates and stores it.
fn read_or_create_key(path: &Path, env: &Env) -> io::Result<Vec<u8>> {
    match private_dir::read(path, KEY_BYTES as u64) {
        Ok(key) if key.len() == KEY_BYTES => return Ok(key),
        // A truncated key would be weak. Its files are compiled again.
        Ok(_) => fs::remove_file(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut fresh = Vec::with_capacity(KEY_BYTES);
    for _ in 0..KEY_BYTES / 8 {
        fresh.extend_from_slice(&env.random().to_ne_bytes());
    }
    private_dir::create_once(path, &fresh, env)?;
    // Another process may have created the key first.
    let key = private_dir::read(path, KEY_BYTES as u64)?;
    match key.len() == KEY_BYTES {
        true => Ok(key),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "the key has an unexpected size")),
    }
}

/// Returns a digest of the version and settings of an engine, including whether fuel is counted.
fn fingerprint(engine: &Engine) -> Sha256 {
    struct Digest(digest::Context);
    impl Hasher for Digest {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        /// Not used: the complete digest is taken from the context.
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut hasher = Digest(digest::Context::new(&digest::SHA256));
    engine.precompile_compatibility_hash().hash(&mut hasher);
    array(hasher.0.finish().as_ref())
}

/// Returns the SHA-256 hash of bytes.
pub(crate) fn sha256(bytes: &[u8]) -> Sha256 {
    array(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// Converts a hash to an array.
fn array(bytes: &[u8]) -> Sha256 {
    let mut array = [0; 32];
    array.copy_from_slice(bytes);
    array
}

/// Formats a hash as hexadecimal digits.
pub(crate) fn hex(hash: &Sha256) -> String {
    HEXLOWER.encode(hash)
}

/// Parses a hash from hexadecimal digits. `None` if the text is not a hash.
pub(crate) fn parse_hex(text: &str) -> Option<Sha256> {
    HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes()).ok()?.try_into().ok()
}
