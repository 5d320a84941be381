//! Temporary measurement.
use std::time::Instant;
use std::sync::Arc;
fn main() {
    for _ in 0..3 {
    let t = Instant::now();
    let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    println!("roots {:?}", t.elapsed());
    let t = Instant::now();
    let p = Arc::new(rustls::crypto::ring::default_provider());
    println!("provider {:?}", t.elapsed());
    let t = Instant::now();
    let c = rustls::ClientConfig::builder_with_provider(p).with_safe_default_protocol_versions().unwrap().with_root_certificates(roots).with_no_client_auth();
    println!("config {:?}", t.elapsed());
    let t = Instant::now();
    let b = reqwest::Client::builder().tls_backend_preconfigured(c);
    println!("builder {:?}", t.elapsed());
    let t = Instant::now();
    let _c = b.build().unwrap();
    println!("build {:?}", t.elapsed());
    }
}
