#!/bin/sh
# Needs the target: rustup target add wasm32-wasip1
set -e
cargo build --release --target wasm32-wasip1
cp target/wasm32-wasip1/release/TOOL_NAME.wasm TOOL_NAME.wasm
