//! What a request costs beside the bare library. Run it with `--release -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use crate::peer::{Server, get, local, ok};

const REQUESTS: u32 = 2_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures, and needs a quiet machine"]
async fn a_request_costs_little_more_than_the_bare_one() {
    let server = Server::answering(ok("hello")).await;
    let (ours, url) = (local(), server.url("/"));
    let tls = provost_net::tls_config_with(None).unwrap();
    let raw = reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap();
    let mut best = [Duration::MAX; 2];
    for _ in 0..5 {
        let began = Instant::now();
        for _ in 0..REQUESTS {
            ours.send(get(url.clone())).await.unwrap().bytes(100).await.unwrap();
        }
        best[0] = best[0].min(began.elapsed() / REQUESTS);
        let began = Instant::now();
        for _ in 0..REQUESTS {
            raw.get(url.clone()).send().await.unwrap().bytes().await.unwrap();
        }
        best[1] = best[1].min(began.elapsed() / REQUESTS);
    }
    let [ours, raw] = best;
    println!("ours {ours:?}, reqwest {raw:?} for each request");
    assert!(ours <= raw + Duration::from_micros(20), "{ours:?} and {raw:?}");
}
