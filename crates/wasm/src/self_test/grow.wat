;; Wants 16 MiB, and goes wrong if it does not get them.
(module
  (memory 1)
  (func (export "run")
    (if (i32.eq (memory.grow (i32.const 256)) (i32.const -1)) (then unreachable))))
