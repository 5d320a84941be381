// Connections, errors and streams: the part of the client that is not generated. Nothing but `fetch`.

/** A connection that brings nothing for so long is taken for dead; the server sends a sign of life every 15 seconds. */
const SILENCE_MS = 45_000;
/** The longest wait before a lost stream is taken up again. */
const RECONNECT_MS_MAX = 10_000;
/** The longest line of a stream that is read. */
const LINE_CHARS_MAX = 64 * 1024 * 1024;

/** How to reach a server. */
export interface ConnectionOptions {
  /** Where it is; `PROVOST_SERVER` or `http://127.0.0.1:7077` if it is left out. */
  url?: string;
  /** Who calls; `PROVOST_TOKEN` if it is left out. */
  token?: string;
  /** In which namespace; `default` if it is left out. */
  namespace?: string;
  /** Another `fetch`, for tests and proxies. */
  fetch?: typeof globalThis.fetch;
}

/** A refusal or a failure: branch on `code`, show `message`. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly kind: string;
  readonly retryAfterMs: number | undefined;

  constructor(readonly problem: Record<string, unknown>) {
    super(typeof problem["detail"] === "string" ? problem["detail"] : "the server refused");
    this.name = "ApiError";
    this.status = Number(problem["status"] ?? 0);
    this.code = String(problem["code"] ?? "unknown");
    this.kind = String(problem["kind"] ?? "unavailable");
    const wait = problem["retry_after_ms"];
    this.retryAfterMs = typeof wait === "number" ? wait : undefined;
  }
}

/**
 * One thing of a stream. `event`: a durable event in `data`; `cursor` goes on behind it. `delta`: a live piece, which may be
 * lost. `reset`: forget what you had, everything begins anew. `lagged`: live pieces were left out. `end`: nothing follows.
 */
export interface StreamItem {
  kind: "event" | "delta" | "reset" | "lagged" | "end";
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  data?: any;
  cursor?: string;
}

/** One request. */
export interface Call {
  method: string;
  path: string;
  query?: Record<string, unknown>;
  headers?: Record<string, string | undefined>;
  body?: unknown;
  signal?: AbortSignal | undefined;
}

/** A piece of a path, safe in it. */
export function part(text: string): string {
  return encodeURIComponent(text);
}

/** What all operations stand on. */
export class Connection {
  readonly namespace: string;
  readonly #url: string;
  readonly #token: string | undefined;
  readonly #fetch: typeof globalThis.fetch;

  constructor(options: ConnectionOptions = {}) {
    const env = globalThis.process?.env ?? {};
    this.#url = (options.url ?? env["PROVOST_SERVER"] ?? "http://127.0.0.1:7077").replace(/\/+$/, "");
    this.#token = options.token ?? env["PROVOST_TOKEN"];
    this.namespace = options.namespace ?? "default";
    this.#fetch = options.fetch ?? globalThis.fetch;
  }

  protected async call(call: Call): Promise<unknown> {
    const text = await this.text(call);
    return text === "" ? undefined : JSON.parse(text);
  }

  protected async text(call: Call): Promise<string> {
    return (await this.#open(call)).text();
  }

  /** Yields until the stream ends. A lost connection is taken up again behind the last event. */
  protected async *stream(call: Call): AsyncGenerator<StreamItem> {
    let cursor = call.query?.["after"] as string | undefined;
    let wait = 100;
    for (;;) {
      try {
        for await (const item of this.#items({ ...call, query: { ...call.query, after: cursor } })) {
          wait = 100;
          cursor = item.kind === "reset" ? undefined : (item.cursor ?? cursor);
          yield item;
          if (item.kind === "end") return;
        }
      } catch (error) {
        if (call.signal?.aborted) throw error;
        const passes = error instanceof ApiError ? ["unavailable", "rate_limited"].includes(error.kind) : true;
        if (!passes) throw error;
      }
      // Spread, so that many readers of a server that restarts do not all come back at once.
      await new Promise((resolve) => setTimeout(resolve, wait * (0.5 + Math.random())));
      wait = Math.min(wait * 2, RECONNECT_MS_MAX);
    }
  }

  async #open(call: Call): Promise<Response> {
    const pairs = Object.entries(call.query ?? {}).filter(([, value]) => value !== undefined && value !== null);
    const search = new URLSearchParams(pairs.map(([key, value]) => [key, String(value)])).toString();
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(call.headers ?? {})) if (value !== undefined) headers[name] = value;
    if (this.#token !== undefined) headers["authorization"] = `Bearer ${this.#token}`;
    if (call.body !== undefined) headers["content-type"] = "application/json";
    const response = await this.#fetch(this.#url + call.path + (search === "" ? "" : `?${search}`), {
      method: call.method,
      headers,
      ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
      ...(call.signal === undefined ? {} : { signal: call.signal }),
    });
    if (response.ok) return response;
    const text = await response.text();
    let problem: Record<string, unknown>;
    try {
      problem = JSON.parse(text) as Record<string, unknown>;
    } catch {
      problem = { detail: `HTTP ${response.status}`, status: response.status, code: "unreadable", kind: "malformed" };
    }
    throw new ApiError(problem);
  }

  async *#items(call: Call): AsyncGenerator<StreamItem> {
    const silence = new AbortController();
    const signals = [silence.signal, ...(call.signal === undefined ? [] : [call.signal])];
    const alarm = () => setTimeout(() => silence.abort(), SILENCE_MS);
    let timer = alarm();
    try {
      const response = await this.#open({ ...call, signal: AbortSignal.any(signals) });
      if (response.body === null) return;
      let rest = "";
      let [id, kind, data]: [string | undefined, string, string[]] = [undefined, "message", []];
      const decoder = new TextDecoder();
      for await (const piece of response.body as unknown as AsyncIterable<Uint8Array>) {
        clearTimeout(timer);
        timer = alarm();
        rest += decoder.decode(piece, { stream: true });
        if (rest.length > LINE_CHARS_MAX) throw new Error("a line of the stream is too long");
        const lines = rest.split("\n");
        rest = lines.pop() ?? "";
        for (const raw of lines) {
          const line = raw.replace(/\r$/, "");
          if (line !== "") {
            const colon = line.indexOf(":");
            const field = colon < 0 ? line : line.slice(0, colon);
            const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
            if (field === "id") id = value;
            else if (field === "event") kind = value;
            else if (field === "data") data.push(value);
            continue;
          }
          const item = toItem(id, kind, data);
          [id, kind, data] = [undefined, "message", []];
          if (item !== undefined) yield item;
        }
      }
    } finally {
      clearTimeout(timer);
      silence.abort();
    }
  }
}

function toItem(id: string | undefined, kind: string, data: string[]): StreamItem | undefined {
  const content = data.length === 0 ? undefined : (JSON.parse(data.join("\n")) as unknown);
  if (kind === "delta" || kind === "reset" || kind === "lagged" || kind === "end") return { kind, data: content };
  if (content === undefined) return undefined;
  return id === undefined ? { kind: "event", data: content } : { kind: "event", data: content, cursor: id };
}
