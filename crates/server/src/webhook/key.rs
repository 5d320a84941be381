//! Signing keys and signatures of webhooks.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use provost_core::{Secret, WebhookId};
use ring::hmac;

const KEY_BYTES: usize = 32;

/// Key of the server from which the signing keys of webhooks are derived. Its owner can sign deliveries of this server.
#[derive(Debug, Clone)]
pub struct WebhookSigningKey(Secret<[u8; KEY_BYTES]>);

impl WebhookSigningKey {
    /// Creates a key from bytes.
    pub fn new(key: [u8; KEY_BYTES]) -> Self {
        Self(Secret::new(key))
    }

    /// Reads the key from a file. If the file does not exist, generates the key and stores it, readable only by its
    /// owner. Returns an error if the file is not a key.
    pub fn open(path: &Path) -> io::Result<Self> {
        match fs::File::open(path) {
            Ok(mut file) => {
                let mut key = Vec::new();
                Read::by_ref(&mut file).take(KEY_BYTES as u64 + 1).read_to_end(&mut key)?;
                let key: [u8; KEY_BYTES] = key.try_into().map_err(|_key| {
                    let problem = format!(
                        "{} is not a key of {KEY_BYTES} bytes: restore it, or delete it and create the webhooks again",
                        path.display()
                    );
                    io::Error::new(io::ErrorKind::InvalidData, problem)
                })?;
                Ok(Self::new(key))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::create(path),
            Err(error) => Err(error),
        }
    }

    /// Generates a key. The key is written to a temporary file first, so that a crash leaves no partial key. If two processes
    /// create the key at the same time, both return the one that was stored.
    fn create(path: &Path) -> io::Result<Self> {
        let mut key = [0; KEY_BYTES];
        fill(&mut key)?;
        let mut suffix = [0; 8];
        fill(&mut suffix)?;
        let temporary = path.with_extension(format!("{:016x}", u64::from_ne_bytes(suffix)));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&temporary)?;
        let written = file.write_all(&key).and_then(|()| file.sync_all());
        let stored = written.and_then(|()| fs::hard_link(&temporary, path));
        fs::remove_file(&temporary)?;
        match stored {
            Ok(()) => Ok(Self::new(key)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::open(path),
            Err(error) => Err(error),
        }
    }

    /// Derives the signing key of a webhook.
    pub(crate) fn derive(&self, webhook: WebhookId) -> WebhookKey {
        let master = hmac::Key::new(hmac::HMAC_SHA256, self.0.expose());
        let mut key = [0; KEY_BYTES];
        key.copy_from_slice(hmac::sign(&master, format!("webhook:{webhook}").as_bytes()).as_ref());
        WebhookKey(Secret::new(key))
    }
}

/// Fills the bytes with random values.
fn fill(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(|error| io::Error::other(error.to_string()))
}

/// Signing key of a webhook.
pub(crate) struct WebhookKey(Secret<[u8; KEY_BYTES]>);

impl WebhookKey {
    /// Returns the key as text, as its receiver gets it.
    pub(crate) fn text(&self) -> String {
        format!("whsec_{}", STANDARD.encode(self.0.expose()))
    }

    /// Returns the value of the header `webhook-signature`.
    pub(crate) fn sign(&self, id: &str, seconds: i64, body: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.0.expose());
        let mut signing = hmac::Context::with_key(&key);
        signing.update(format!("{id}.{seconds}.").as_bytes());
        signing.update(body.as_bytes());
        format!("v1,{}", STANDARD.encode(signing.sign()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("webhook.key");
        let made = WebhookSigningKey::open(&path).unwrap();
        let read = WebhookSigningKey::open(&path).unwrap();
        assert_eq!(made.0, read.0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        fs::write(&path, "short").unwrap();
        let refused = WebhookSigningKey::open(&path).unwrap_err().to_string();
        assert!(refused.contains("webhook.key"), "{refused}");
        assert_eq!(format!("{made:?}"), "WebhookSigningKey(Secret(***))");
    }

    #[test]
    fn signatures_are_those_of_the_standard() {
        // The example of the Standard Webhooks specification.
        let key = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let hmac_key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let body = r#"{"test": 2432232314}"#;
        let signed = format!("msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{body}");
        let wanted = STANDARD.encode(hmac::sign(&hmac_key, signed.as_bytes()));
        assert_eq!(wanted, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let mut whole = [0; KEY_BYTES];
        whole[..key.len()].copy_from_slice(&key);
        // Keys are padded with zeros to a block, so a longer key with zeros is the same key.
        let sign = WebhookKey(Secret::new(whole)).sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            body,
        );
        assert_eq!(sign, format!("v1,{wanted}"));
    }

    #[test]
    fn webhooks_have_keys_of_their_own() {
        let master = WebhookSigningKey::new([7; KEY_BYTES]);
        let [one, two]: [WebhookId; 2] =
            ["whk_01jd0000000000000000000000", "whk_01jd0000000000000000000001"]
                .map(|id| id.parse().unwrap());
        assert_ne!(master.derive(one).text(), master.derive(two).text());
        assert_eq!(master.derive(one).text(), master.derive(one).text());
        assert_ne!(
            master.derive(one).text(),
            WebhookSigningKey::new([8; KEY_BYTES]).derive(one).text()
        );
    }
}
