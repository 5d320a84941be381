;; Acts out a scene of the conformance suite: reads a request, writes a response. Nothing but WASI and the declared store.
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "provost" "kv_set" (func $kv_set (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 4)
  ;; The scene, put in when this is assembled.
  (global $scene i32 (i32.const SCENE))
  (data (i32.const 64) "seen")
  (data (i32.const 128) "\\\"text\\\":\\\"")
  (data (i32.const 160) "\"attempt\":")
  (data (i32.const 256) "{\"contract_version\":\"v1\",\"status\":\"ok\",\"output\":\"")
  (data (i32.const 320) "\"}")
  (data (i32.const 384) "{\"contract_version\":\"v1\",\"status\":\"error\",\"error\":{\"code\":\"execution_failed\",\"reason\":\"tool_backend_failure\",\"retryable\":true,\"message\":\"as the scene says\"}}")
  (data (i32.const 640) "{\"contract_version\":\"v1\",\"status\":\"error\",\"error\":{\"code\":\"execution_failed\",\"reason\":\"tool_backend_failure\",\"retryable\":false,\"message\":\"as the scene says\"}}")
  (data (i32.const 896) "{\"contract_version\":\"v1\",\"status\":\"error\",\"error\":{\"code\":\"auth_invalid\",\"reason\":\"tool_auth_invalid\",\"retryable\":false,\"message\":\"as the scene says\"}}")
  (data (i32.const 1152) "{\"contract_version\":\"v1\",\"status\":\"error\",\"error\":{\"code\":\"auth_forbidden\",\"reason\":\"tool_auth_forbidden\",\"retryable\":false,\"message\":\"as the scene says\"}}")
  (data (i32.const 1408) "no json")
  (data (i32.const 1472) "{\"contract_version\":\"v1\",\"request_id\":\"another\",\"status\":\"ok\",\"output\":\"x\"}")

  (func $write (param $at i32) (param $size i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $size))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))

  ;; Reads everything to 65536; gives its size.
  (func $read (result i32) (local $size i32)
    (loop $more
      (i32.store (i32.const 0) (i32.add (i32.const 65536) (local.get $size)))
      (i32.store (i32.const 4) (i32.const 4096))
      (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
      (local.set $size (i32.add (local.get $size) (i32.load (i32.const 8))))
      (br_if $more (i32.load (i32.const 8))))
    (local.get $size))

  ;; Where the bytes behind a pattern begin, from an address on; 0 if it is not there.
  (func $behind (param $from i32) (param $end i32) (param $pattern i32) (param $size i32) (result i32) (local $n i32)
    (block $none
      (loop $next
        (br_if $none (i32.ge_u (local.get $from) (local.get $end)))
        (local.set $n (i32.const 0))
        (block $differs
          (loop $same
            (br_if $differs (i32.ne
              (i32.load8_u (i32.add (local.get $from) (local.get $n)))
              (i32.load8_u (i32.add (local.get $pattern) (local.get $n)))))
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $same (i32.lt_u (local.get $n) (local.get $size))))
          (return (i32.add (local.get $from) (local.get $size))))
        (local.set $from (i32.add (local.get $from) (i32.const 1)))
        (br $next)))
    (i32.const 0))

  (func $echo (param $end i32) (local $at i32) (local $stop i32)
    (local.set $at (call $behind (i32.const 65536) (local.get $end) (i32.const 128) (i32.const 11)))
    (local.set $stop (local.get $at))
    (block $found
      (loop $next
        (br_if $found (i32.eq (i32.load8_u (local.get $stop)) (i32.const 92)))
        (local.set $stop (i32.add (local.get $stop) (i32.const 1)))
        (br_if $next (i32.lt_u (local.get $stop) (local.get $end)))))
    (call $write (i32.const 256) (i32.const 49))
    (call $write (local.get $at) (i32.sub (local.get $stop) (local.get $at)))
    (call $write (i32.const 320) (i32.const 2)))

  (func (export "run") (local $end i32) (local $at i32)
    (local.set $end (call $read))
    (drop (call $kv_set (i32.const 64) (i32.const 4) (i32.const 65536) (local.get $end)))
    (local.set $end (i32.add (i32.const 65536) (local.get $end)))
    (block $endless (block $wrong (block $garbage (block $forbidden (block $unauthorised (block $broken (block $flaky (block $hang (block $echo
      (br_table $echo $hang $flaky $broken $unauthorised $forbidden $garbage $wrong $endless (global.get $scene)))
      (call $echo (local.get $end)) (return))
      (loop $forever (br $forever)))
      (local.set $at (call $behind (i32.const 65536) (local.get $end) (i32.const 160) (i32.const 10)))
      (if (i32.lt_u (i32.load8_u (local.get $at)) (i32.const 51))
        (then (call $write (i32.const 384) (i32.const 157)))
        (else (call $echo (local.get $end))))
      (return))
      (call $write (i32.const 640) (i32.const 158)) (return))
      (call $write (i32.const 896) (i32.const 151)) (return))
      (call $write (i32.const 1152) (i32.const 155)) (return))
      (call $write (i32.const 1408) (i32.const 7)) (return))
      (call $write (i32.const 1472) (i32.const 75)) (return))
    (loop $forever (call $write (i32.const 0) (i32.const 65536)) (br $forever)))
)
