//! The one outbound client: what leaves this machine leaves through here.
//!
//! Tools, webhooks and servers are named by people who do not own this machine's network. So scheme, port, name and every
//! address are checked when a connection is made, under the [`NetPolicy`] of the client that makes it: a name is looked up
//! once, all its answers must be allowed, and exactly these are dialled. A redirect is a new address and is checked as one.
//! Nothing reads proxies from the environment: a proxy would dial for us, unchecked.
//!
//! Everything is bounded: the whole of a request by its deadline, heads by [`limits`], bodies by the reader's own cap, which
//! counts bytes after they were unpacked. Dropping a future or a response closes what it was waiting for.
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use provost_net::{NetClient, NetError, NetPolicy, NetRequest, Url, Why};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = NetClient::new(NetPolicy::default());
//! let deadline = Instant::now() + Duration::from_secs(10);
//! // An address of the cloud's own, spelt as one number.
//! let url = Url::parse("https://2852039166/latest/meta-data/")?;
//! match client.send(NetRequest::get(url, deadline)).await {
//!     Ok(response) => drop(response.bytes(1 << 20).await?),
//!     Err(NetError::Refused { why, sent, .. }) => {
//!         assert_eq!(why, Why::Metadata);
//!         assert!(!sent, "nothing was dialled");
//!     }
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! ```

mod address;
mod client;
mod connect;
mod decode;
mod dial;
mod error;
pub mod headers;
pub mod limits;
mod lookup;
mod policy;
mod redirect;
mod request;
mod response;
mod tls;

pub use url::Url;

pub use self::client::{NetClient, NetOptions};
pub use self::connect::{Connector, PooledConnection};
pub use self::dial::Dialer;
pub use self::error::{NetError, Why};
pub use self::lookup::{Lookup, SystemLookup, TableLookup};
pub use self::policy::NetPolicy;
pub use self::request::NetRequest;
pub use self::response::NetResponse;
pub use self::tls::{CERT_FILE_VARIABLE, TlsError, tls_config, tls_config_with};
