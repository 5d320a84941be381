#!/bin/sh
# Needs clang, lld, wasi-libc and the compiler's library: apt-get install clang lld wasi-libc libclang-rt-14-dev-wasm32
set -e
clang --target=wasm32-wasi -O2 -Wall tool.c -o TOOL_NAME.wasm
