// A tool: reads a request from its standard input, writes a response to its standard output.
@external("wasi_snapshot_preview1", "fd_read")
declare function fd_read(fd: i32, parts: usize, count: i32, size: usize): i32;
@external("wasi_snapshot_preview1", "fd_write")
declare function fd_write(fd: i32, parts: usize, count: i32, size: usize): i32;
@external("wasi_snapshot_preview1", "proc_exit")
declare function proc_exit(code: i32): void;

const CHUNK: i32 = 65536;
const parts = memory.data(16);

// In place of what the compiler would import from a browser.
export function abort(message: usize, file: usize, line: u32, column: u32): void {
  proc_exit(134);
}

function read(): string {
  let text = new Uint8Array(0);
  const chunk = new Uint8Array(CHUNK);
  while (true) {
    store<u32>(parts, chunk.dataStart as u32);
    store<u32>(parts + 4, CHUNK);
    if (fd_read(0, parts, 1, parts + 8) != 0) break;
    const size = load<u32>(parts + 8) as i32;
    if (size == 0) break;
    const longer = new Uint8Array(text.length + size);
    longer.set(text);
    longer.set(chunk.subarray(0, size), text.length);
    text = longer;
  }
  return String.UTF8.decodeUnsafe(text.dataStart, text.length);
}

function write(text: string): void {
  const bytes = String.UTF8.encode(text);
  store<u32>(parts, changetype<usize>(bytes) as u32);
  store<u32>(parts + 4, bytes.byteLength);
  fd_write(1, parts, 1, parts + 8);
}

// A text of a JSON object, or null. Use a library as soon as you need more.
function field(json: string, name: string): string | null {
  const mark = `"${name}":"`;
  const start = json.indexOf(mark);
  if (start < 0) return null;
  let text = "";
  for (let at = start + mark.length; at < json.length; at++) {
    let letter = json.charAt(at);
    if (letter == '"') return text;
    if (letter == "\\") {
      letter = json.charAt(++at);
      if (letter == "n") letter = "\n";
      else if (letter == "t") letter = "\t";
      else if (letter == "r") letter = "\r";
    }
    text += letter;
  }
  return null;
}

export function run(): void {
  // `input` of the request is the arguments, as JSON in a text.
  const input = field(read(), "input");
  let text: string | null = null;
  if (input !== null) text = field(input, "text");
  if (text === null) {
    write('{"contract_version":"v1","status":"error","error":{"code":"invalid_input","reason":"tool_invalid_input","retryable":false,"message":"`text` is missing"}}');
    return;
  }
  let words = 0;
  let inside = false;
  for (let at = 0; at < text.length; at++) {
    const isWord = text.charCodeAt(at) > 32;
    if (isWord && !inside) words++;
    inside = isWord;
  }
  write(`{"contract_version":"v1","status":"ok","output":"${words}"}`);
}
