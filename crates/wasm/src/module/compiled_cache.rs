//! Compiled modules on disk.
//!
//! A compiled module is machine code: whoever can put a file here could run anything in this process. So nothing that lies here
//! is believed. The directory is ours alone (mode 700, our user, no link), a file is ours alone too, and each carries an HMAC
//! under a key that is made for this directory and lies beside the files with mode 600. It covers the hash of the module, the
//! version and the settings of the engine, and the code. A file that is damaged, copied from elsewhere, made for another module
//! or planted by somebody who cannot read the key is thrown away, and the module is compiled anew. Whoever can read the key runs
//! as this user or as root and needs no cache to run anything.

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

/// The hash of a module.
pub(crate) type Sha256 = [u8; 32];

const KEY_BYTES: usize = 32;
const TAG_BYTES: usize = 32;
/// Files that are kept; the oldest go.
const FILES_MAX: usize = 512;
/// Bytes that are kept.
const BYTES_MAX: u64 = 2 << 30;

/// A module, compiled.
#[derive(Clone)]
pub(crate) enum Compiled {
    Core(wasmtime::Module),
    Component(Component),
}

impl Compiled {
    /// The engine that it was compiled for, and the only one that may run it.
    fn engine(&self) -> &Engine {
        match self {
            Self::Core(module) => module.engine(),
            Self::Component(component) => component.engine(),
        }
    }
}

/// What a compiled module is kept under: the module, and the version and the settings of the engine that it was compiled for.
#[derive(Clone, Copy)]
struct Title<'a> {
    module: &'a Sha256,
    engine: &'a Sha256,
}

/// Compiled modules, and modules by their hash.
pub(crate) struct Cache {
    compiled: PathBuf,
    modules: PathBuf,
    key: hmac::Key,
    env: Env,
}

impl Cache {
    /// In a directory that is made if it is not there, and refused if others may use it.
    pub(crate) fn open(dir: &Path, env: Env) -> Result<Self, WasmError> {
        let (compiled, modules) = (dir.join("compiled"), dir.join("modules"));
        for dir in [dir, &compiled, &modules] {
            private_dir::dir(dir)?;
        }
        let key = key(&dir.join("key"), &env).map_err(|error| WasmError::Cache {
            path: dir.display().to_string(),
            why: format!("its key cannot be used: {error}"),
        })?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        Ok(Self { compiled, modules, key, env })
    }

    /// A compiled module, if there is one that was made here for this engine.
    pub(crate) fn find(
        &self,
        engine: &Engine,
        module: &Sha256,
        is_component: bool,
    ) -> Option<Compiled> {
        let title = Title { module, engine: &fingerprint(engine) };
        let path = self.place(title);
        let bytes = match private_dir::read(&path, COMPILED_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "a compiled module is not used");
                return None;
            }
        };
        let found = self.opened(title, &bytes).and_then(|code| revive(engine, code, is_component));
        if found.is_none() {
            tracing::warn!(path = %path.display(), "a compiled module was not made here, or is damaged: it is compiled anew");
            fs::remove_file(&path).unwrap_or_default();
        }
        found
    }

    /// Keeps a compiled module. That it cannot be kept costs only time later.
    pub(crate) fn keep(&self, module: &Sha256, compiled: &Compiled) {
        let code = match compiled {
            Compiled::Core(module) => module.serialize(),
            Compiled::Component(component) => component.serialize(),
        };
        let Ok(code) = code else { return };
        let title = Title { module, engine: &fingerprint(compiled.engine()) };
        let mut bytes = self.tag(title, &code).as_ref().to_vec();
        bytes.extend_from_slice(&code);
        if let Err(error) = private_dir::put(&self.place(title), &bytes, &self.env) {
            tracing::warn!(%error, "a compiled module cannot be kept");
        }
        self.tidy();
    }

    /// A module by its hash, if it lies here and is what its name says.
    pub(crate) fn module(&self, hash: &Sha256) -> Option<Vec<u8>> {
        let path = self.modules.join(hex(hash)).with_extension("wasm");
        let bytes = private_dir::read(&path, MODULE_BYTES_MAX).ok()?;
        let is_it = sha256(&bytes) == *hash;
        if !is_it {
            tracing::warn!(path = %path.display(), "a module is not what its name says: it is not used");
        }
        is_it.then_some(bytes)
    }

    /// Keeps a module under its hash.
    pub(crate) fn keep_module(&self, bytes: &[u8]) -> io::Result<Sha256> {
        let hash = sha256(bytes);
        let path = self.modules.join(hex(&hash)).with_extension("wasm");
        private_dir::put(&path, bytes, &self.env)?;
        // Nothing can make it again where a manifest names it by its hash alone.
        fs::File::open(&path)?.sync_all()?;
        Ok(hash)
    }

    fn place(&self, title: Title<'_>) -> PathBuf {
        self.compiled.join(format!("{}-{}", hex(title.module), &hex(title.engine)[..16]))
    }

    fn tag(&self, title: Title<'_>, code: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.key);
        for part in [title.module, title.engine, code] {
            context.update(part);
        }
        context.sign()
    }

    /// The code of a file, if its tag is ours.
    fn opened<'a>(&self, title: Title<'_>, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (tag, code) = bytes.split_at_checked(TAG_BYTES)?;
        // Both tags are compared in a time that says nothing of where they differ.
        let own = self.tag(title, code);
        let same =
            tag.iter().zip(own.as_ref()).fold(0, |differs, (one, other)| differs | (one ^ other));
        (same == 0).then_some(code)
    }

    /// Lets go of the oldest beyond what is kept.
    fn tidy(&self) {
        let Ok(entries) = fs::read_dir(&self.compiled) else { return };
        let facts = entries.flatten().filter_map(|entry| {
            let found = entry.metadata().ok()?;
            Some((found.modified().ok()?, found.len(), entry.path()))
        });
        let mut files: Vec<_> = facts.collect();
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

/// Makes a module of code that was made here.
#[expect(
    unsafe_code,
    reason = "machine code cannot be checked by looking at it, only by who made it"
)]
fn revive(engine: &Engine, code: &[u8], is_component: bool) -> Option<Compiled> {
    // SAFETY: the code carries a tag that only this installation can make, over exactly these bytes, for this module and this
    // version and these settings of the engine; so it is what `serialize` gave, unchanged.
    let revived = unsafe {
        match is_component {
            true => Component::deserialize(engine, code).map(Compiled::Component),
            false => wasmtime::Module::deserialize(engine, code).map(Compiled::Core),
        }
    };
    revived.ok()
}

/// The key of a directory: read, or made if there is none.
fn key(path: &Path, env: &Env) -> io::Result<Vec<u8>> {
    match private_dir::read(path, KEY_BYTES as u64) {
        Ok(key) if key.len() == KEY_BYTES => return Ok(key),
        // A key that is cut off would be a weak one; what was made under it is compiled anew.
        Ok(_) => fs::remove_file(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut fresh = Vec::with_capacity(KEY_BYTES);
    for _ in 0..KEY_BYTES / 8 {
        fresh.extend_from_slice(&env.random().to_ne_bytes());
    }
    private_dir::put_first(path, &fresh, env)?;
    // Another process may have been first.
    let key = private_dir::read(path, KEY_BYTES as u64)?;
    match key.len() == KEY_BYTES {
        true => Ok(key),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "it has another size")),
    }
}

/// The version and the settings of an engine, as one number: whether fuel is counted is among them.
fn fingerprint(engine: &Engine) -> Sha256 {
    struct Digest(digest::Context);
    impl Hasher for Digest {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        /// Nobody asks: the digest is taken as a whole.
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut hasher = Digest(digest::Context::new(&digest::SHA256));
    engine.precompile_compatibility_hash().hash(&mut hasher);
    array(hasher.0.finish().as_ref())
}

/// The hash of bytes.
pub(crate) fn sha256(bytes: &[u8]) -> Sha256 {
    array(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn array(bytes: &[u8]) -> Sha256 {
    let mut array = [0; 32];
    array.copy_from_slice(bytes);
    array
}

/// A hash in hexadecimal digits.
pub(crate) fn hex(hash: &Sha256) -> String {
    HEXLOWER.encode(hash)
}

/// A hash that was written in hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Option<Sha256> {
    HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes()).ok()?.try_into().ok()
}
