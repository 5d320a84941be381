;; Answers like a tool.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "{\"contract_version\":\"v1\",\"status\":\"ok\",\"output\":\"here\"}")
  (func (export "run")
    (i32.store (i32.const 0) (i32.const 16))
    (i32.store (i32.const 4) (i32.const 55))
    (drop (call 0 (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))
