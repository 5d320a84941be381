;; Looks for a directory behind each descriptor and opens a file from it. Ends with 7 if there was neither.
(module
  (import "wasi_snapshot_preview1" "path_open"
    (func (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_get" (func (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "/etc/passwd")
  (func (export "run") (result i32) (local i32)
    (loop
      (if (i32.eqz (call 0 (local.get 0) (i32.const 1) (i32.const 16) (i32.const 11)
                     (i32.const 0) (i64.const 2) (i64.const 2) (i32.const 0) (i32.const 64)))
        (then (return (i32.const 1))))
      (if (i32.eqz (call 1 (local.get 0) (i32.const 64)))
        (then (return (i32.const 2))))
      (local.set 0 (i32.add (local.get 0) (i32.const 1)))
      (br_if 0 (i32.lt_u (local.get 0) (i32.const 64))))
    (i32.const 7)))
