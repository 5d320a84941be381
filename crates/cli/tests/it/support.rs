//! A world with a provider in it, and programs that talk to it.

use std::process::Child;

use provost_testkit::{FakeProvider, Reply};
use serde_json::{Value, json};

use crate::terminal::Terminal;
use crate::{Ran, World};

/// A world with a provider.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) provider: FakeProvider,
    pub(crate) url: String,
}

impl Stage {
    pub(crate) async fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let provider = FakeProvider::start().await;
        provider.replies(replies);
        let url = provider.base_url();
        Self { world: World::new(), provider, url }
    }

    pub(crate) fn args<'a>(&'a self, args: &[&'a str]) -> Vec<&'a str> {
        let (command, rest) = args.split_first().unwrap();
        [&[*command, "-m", "m", "--base-url", &self.url], rest].concat()
    }

    pub(crate) fn start(&self, args: &[&str]) -> Child {
        self.world.command(&self.args(args)).spawn().unwrap()
    }

    pub(crate) async fn run(&self, args: &[&str]) -> Ran {
        ended(self.start(args)).await
    }

    pub(crate) fn chat(&self, args: &[&str]) -> Terminal {
        Terminal::start(&self.world, &self.args(&[&["chat"], args].concat()))
    }

    /// The conversations that the provider was asked about.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.provider.bodies().into_iter().map(|mut body| body["messages"].take()).collect()
    }
}

/// What a program did, once it has ended.
pub(crate) async fn ended(child: Child) -> Ran {
    let output = tokio::task::spawn_blocking(move || child.wait_with_output());
    Ran::of(&output.await.unwrap().unwrap())
}

/// A call of the tool that needs consent.
pub(crate) fn save_milk() -> Reply {
    Reply::call("c1", "save_note", &json!({ "name": "milk", "text": "buy milk" }))
}

/// An answer that takes its time: `piece0 piece1 …`.
pub(crate) fn slow(pieces: usize) -> Reply {
    let deltas = (0..pieces).map(|piece| format!("piece{piece} "));
    Reply::new().deltas(deltas).chunk_delay(std::time::Duration::from_millis(20))
}
