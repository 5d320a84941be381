;; Ends with 7 and the number of variables that it sees.
(module
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "run") (result i32)
    (drop (call 0 (i32.const 0) (i32.const 4)))
    (i32.add (i32.load (i32.const 0)) (i32.const 7))))
