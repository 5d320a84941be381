// Acts out the scene that its first argument names: reads a request, writes a response.
@external("wasi_snapshot_preview1", "fd_read")
declare function fd_read(fd: i32, parts: usize, count: i32, size: usize): i32;
@external("wasi_snapshot_preview1", "fd_write")
declare function fd_write(fd: i32, parts: usize, count: i32, size: usize): i32;
@external("wasi_snapshot_preview1", "args_sizes_get")
declare function args_sizes_get(count: usize, size: usize): i32;
@external("wasi_snapshot_preview1", "args_get")
declare function args_get(list: usize, text: usize): i32;
@external("wasi_snapshot_preview1", "proc_exit")
declare function proc_exit(code: i32): void;
@external("provost", "kv_set")
declare function kv_set(key: usize, keySize: i32, value: usize, valueSize: i32): i32;

const ROOM: i32 = 65536;
const parts = memory.data(16);

// In place of what the compiler would import from a browser.
export function abort(message: usize, file: usize, line: u32, column: u32): void {
  proc_exit(134);
}

function read(): ArrayBuffer {
  const place = new ArrayBuffer(ROOM);
  let size = 0;
  while (true) {
    store<u32>(parts, (changetype<usize>(place) + size) as u32);
    store<u32>(parts + 4, ROOM - size);
    if (fd_read(0, parts, 1, parts + 8) != 0 || load<u32>(parts + 8) == 0) break;
    size += load<u32>(parts + 8);
  }
  return place.slice(0, size);
}

function write(text: string): void {
  const bytes = String.UTF8.encode(text);
  store<u32>(parts, changetype<usize>(bytes) as u32);
  store<u32>(parts + 4, bytes.byteLength);
  fd_write(1, parts, 1, parts + 8);
}

function scene(): string {
  args_sizes_get(parts, parts + 4);
  const count = load<u32>(parts);
  if (count < 2) return "Echo";
  const list = new ArrayBuffer(4 * count);
  const text = new ArrayBuffer(load<u32>(parts + 4));
  args_get(changetype<usize>(list), changetype<usize>(text));
  return String.UTF8.decodeUnsafe(load<u32>(changetype<usize>(list) + 4) as usize, 64, true);
}

function fail(code: string, reason: string, retryable: bool): void {
  write(`{"contract_version":"v1","status":"error","error":{"code":"${code}","reason":"${reason}","retryable":${retryable},"message":"as the scene says"}}`);
}

function between(text: string, before: string, after: string): string {
  const start = text.indexOf(before);
  if (start < 0) return "";
  const from = start + before.length;
  return text.substring(from, text.indexOf(after, from));
}

export function run(): void {
  const raw = read();
  const key = String.UTF8.encode("seen");
  kv_set(changetype<usize>(key), key.byteLength, changetype<usize>(raw), raw.byteLength);
  const request = String.UTF8.decode(raw);
  const played = scene();
  const attempt = request.charCodeAt(request.indexOf('"attempt":') + 10) - 48;
  if (played == "Hang") while (true) {}
  if (played == "Flaky" && attempt < 3) return fail("execution_failed", "tool_backend_failure", true);
  if (played == "Broken") return fail("execution_failed", "tool_backend_failure", false);
  if (played == "Unauthorised") return fail("auth_invalid", "tool_auth_invalid", false);
  if (played == "Forbidden") return fail("auth_forbidden", "tool_auth_forbidden", false);
  if (played == "Garbage") return write("no json");
  if (played == "Endless") {
    const chunk = "x".repeat(4096);
    while (true) write(chunk);
  }
  const id = played == "WrongId" ? '"request_id":"another",' : "";
  write(`{"contract_version":"v1",${id}"status":"ok","output":"${between(request, '\\"text\\":\\"', "\\")}"}`);
}
