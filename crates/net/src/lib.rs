//! The outbound HTTP client for URLs that users supply. Providers and telemetry use clients of their own.
//!
//! URLs of tools, webhooks and servers come from users who do not own the network of this machine. The scheme, port,
//! name and every address are therefore checked when a connection is opened, under the [`NetPolicy`] of its client: a
//! name is resolved once, all its addresses must be permitted, and only these are dialled. A redirect is checked like a
//! new request. Proxy settings of the environment are ignored, because a proxy would connect without these checks.
//!
//! Every resource is limited: a request by its deadline, response heads by [`limits`], and bodies by a limit of the
//! reader, which counts decoded bytes. Dropping a future or a response closes its connection.
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use provost_net::{NetClient, NetError, NetPolicy, NetRequest, RefusalReason, Url};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = NetClient::new(NetPolicy::default());
//! let deadline = Instant::now() + Duration::from_secs(10);
//! // The metadata service of a cloud, written as one number.
//! let url = Url::parse("https://2852039166/latest/meta-data/")?;
//! match client.send(NetRequest::get(url, deadline)).await {
//!     Ok(response) => drop(response.bytes(1 << 20).await?),
//!     Err(NetError::Refused { reason, sent, .. }) => {
//!         assert_eq!(reason, RefusalReason::Metadata);
//!         assert!(!sent, "no connection was opened");
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
mod policy;
mod redirect;
mod request;
mod resolver;
mod response;
mod tls;

pub use url::Url;

pub use self::client::{NetClient, NetOptions};
pub use self::connect::{Connector, PooledConnection};
pub use self::dial::Dialer;
pub use self::error::{NetError, RefusalReason};
pub use self::policy::NetPolicy;
pub use self::request::NetRequest;
pub use self::resolver::{Resolver, StaticResolver, SystemResolver};
pub use self::response::NetResponse;
pub use self::tls::{CERT_FILE_VARIABLE, TlsError, tls_config, tls_config_with};
