//! Where modules come from: files below one directory, addresses with a hash, what is kept here.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use provost_core::contract::ToolErrorCode;
use provost_core::hash::sha256_hex;
use provost_core::resource::WasmSpec;
use provost_net::NetPolicy;
use provost_tool::ToolRuntime as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::stage::{Room, answering, assembled, declared, nothing, tool};

#[tokio::test(flavor = "multi_thread")]
async fn a_file_stays_below_the_directory_of_modules() {
    let room = Room::open();
    let bytes = assembled(&answering("", ""));
    fs::write(room.dir.path().join("outside.wasm"), &bytes).unwrap();
    let modules = room.dir.path().join("modules");
    std::os::unix::fs::symlink("../outside.wasm", modules.join("link.wasm")).unwrap();
    let absolute = room.dir.path().join("outside.wasm").display().to_string();
    for module in
        ["../outside.wasm", "link.wasm", &absolute, "missing.wasm", ".", "a/../../outside.wasm"]
    {
        let named = tool(WasmSpec { module: module.to_owned(), ..WasmSpec::default() });
        assert_eq!(
            room.runtime.check(&named).unwrap_err().code,
            ToolErrorCode::RuntimePolicyInvalid,
            "{module}"
        );
        let called = room.runtime.invoke(room.attempt(&named, nothing())).await.unwrap_err();
        assert_eq!(called.code, ToolErrorCode::RuntimePolicyInvalid, "{module}");
    }
    let sound = room.tool("sound.wasm", &bytes);
    let right =
        declared(sound.clone(), |spec| spec.sha256 = Some(sha256_hex(&bytes).to_uppercase()));
    assert!(room.call(&right, nothing()).await.is_ok());
    let wrong = declared(sound, |spec| spec.sha256 = Some(sha256_hex(b"another")));
    let fault = room.call(&wrong, nothing()).await.unwrap_err();
    assert!(fault.message.contains("is declared"), "{}", fault.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_is_kept_here_is_named_by_its_hash() {
    let room = Room::open();
    let bytes = assembled(&answering("", ""));
    let hash = room.runtime.store_module(&bytes).unwrap();
    assert_eq!(hash, sha256_hex(&bytes));
    assert!(
        room.runtime.store_module(b"no module").is_err()
            && room.runtime.store_module(&bytes[..50]).is_err()
    );
    let named = tool(WasmSpec { module: format!("blob:{hash}"), ..WasmSpec::default() });
    assert_eq!(room.call(&named, nothing()).await.unwrap().to_text(), "done");
    let absent = tool(WasmSpec {
        module: format!("blob:sha256:{}", sha256_hex(b"x")),
        ..WasmSpec::default()
    });
    assert_eq!(
        room.call(&absent, nothing()).await.unwrap_err().code,
        ToolErrorCode::RuntimePolicyInvalid
    );
    // One that is not what its name says is as good as none.
    let room = room.again();
    let kept = room.dir.path().join(format!("cache/modules/{hash}.wasm"));
    fs::write(&kept, assembled(&answering("", "unreachable"))).unwrap();
    assert_eq!(
        room.call(&named, nothing()).await.unwrap_err().code,
        ToolErrorCode::RuntimePolicyInvalid
    );
}

/// A server that gives these bytes to everybody, and counts.
async fn serving(bytes: Vec<u8>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/m.wasm", listener.local_addr().unwrap());
    let served = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&served);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counting.fetch_add(1, Ordering::SeqCst);
            let mut head = [0; 4096];
            let asked = stream.read(&mut head).await.unwrap();
            assert!(head[..asked].starts_with(b"GET /m.wasm"));
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                bytes.len()
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
        }
    });
    (address, served)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_from_an_address_is_fetched_once_and_is_what_was_declared() {
    let bytes = assembled(&answering("", ""));
    let (address, served) = serving(bytes.clone()).await;
    let room = Room::with(|options| options.network = NetPolicy::open());
    let unhashed = tool(WasmSpec { module: address.clone(), ..WasmSpec::default() });
    assert_eq!(room.runtime.check(&unhashed).unwrap_err().details["field"], "wasm.sha256");
    let hashed = declared(unhashed, |spec| spec.sha256 = Some(sha256_hex(&bytes)));
    for _ in 0..2 {
        assert_eq!(room.call(&hashed, nothing()).await.unwrap().to_text(), "done");
    }
    assert_eq!(served.load(Ordering::SeqCst), 1);
    // A program that starts again has it, even where nobody may be reached.
    let room = room.again();
    assert_eq!(room.call(&hashed, nothing()).await.unwrap().to_text(), "done");
    assert_eq!(served.load(Ordering::SeqCst), 1);
    let changed = declared(hashed, |spec| spec.sha256 = Some(sha256_hex(b"what it was yesterday")));
    let open = Room::with(|options| options.network = NetPolicy::open());
    let fault = open.call(&changed, nothing()).await.unwrap_err();
    assert!(fault.message.contains("is declared"), "{}", fault.message);
    // The operator's policy counts for modules, too.
    let fault = room.call(&changed, nothing()).await.unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::PermissionDenied, "{}", fault.message);
}
