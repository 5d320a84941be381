// Connections, errors and streams: the part of the client that is not generated. It needs only `fetch`.

/** Milliseconds without data after which a stream reconnects. The server sends a heartbeat every 15 seconds. */
const SILENCE_MS = 45_000;
/** Maximum delay in milliseconds before a stream reconnects. */
const RECONNECT_MS_MAX = 10_000;
/** Maximum length of a line of a stream. */
const LINE_CHARS_MAX = 64 * 1024 * 1024;

/** Options of a connection to a server. */
export interface ConnectionOptions {
  /** URL of the server. The default is `PROVOST_SERVER`, else `http://127.0.0.1:7077`. */
  url?: string;
  /** API token. The default is `PROVOST_TOKEN`. */
  token?: string;
  /** Namespace. The default is `default`. */
  namespace?: string;
  /** Implementation of `fetch`, for tests and proxies. */
  fetch?: typeof globalThis.fetch;
}

/** An error response. Programs branch on `code`; `message` is for users. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly kind: string;
  readonly retryAfterMs: number | undefined;

  constructor(readonly problem: Record<string, unknown>) {
    super(typeof problem["detail"] === "string" ? problem["detail"] : "the server returned an error");
    this.name = "ApiError";
    this.status = Number(problem["status"] ?? 0);
    this.code = String(problem["code"] ?? "unknown");
    this.kind = String(problem["kind"] ?? "unavailable");
    const retryAfterMs = problem["retry_after_ms"];
    this.retryAfterMs = typeof retryAfterMs === "number" ? retryAfterMs : undefined;
  }
}

/**
 * An item of an event stream. `event`: a durable event in `data`; a stream that starts with `after: cursor` continues with the
 * next event. `delta`: a live delta, which can be lost. `reset`: the stream restarts at the oldest stored event, so the client
 * discards its state. `lagged`: the server dropped deltas. `end`: the run has ended, and no item follows.
 */
export interface StreamItem {
  kind: "event" | "delta" | "reset" | "lagged" | "end";
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  data?: any;
  cursor?: string;
}

/** A request. */
export interface ApiRequest {
  method: string;
  path: string;
  query?: Record<string, unknown>;
  headers?: Record<string, string | undefined>;
  body?: unknown;
  signal?: AbortSignal | undefined;
}

/** Encodes a path segment. */
export function part(text: string): string {
  return encodeURIComponent(text);
}

/** A connection to a server. The generated operations extend it. */
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

  protected async call(request: ApiRequest): Promise<unknown> {
    const text = await this.text(request);
    return text === "" ? undefined : JSON.parse(text);
  }

  protected async text(request: ApiRequest): Promise<string> {
    return (await this.#open(request)).text();
  }

  /** Yields items until the stream ends. After a lost connection the stream continues after the last event. */
  protected async *stream(request: ApiRequest): AsyncGenerator<StreamItem> {
    let cursor = request.query?.["after"] as string | undefined;
    let delay = 100;
    for (;;) {
      try {
        for await (const item of this.#items({ ...request, query: { ...request.query, after: cursor } })) {
          delay = 100;
          cursor = item.kind === "reset" ? undefined : (item.cursor ?? cursor);
          yield item;
          if (item.kind === "end") return;
        }
      } catch (error) {
        if (request.signal?.aborted) throw error;
        const isRetryable = error instanceof ApiError ? ["unavailable", "rate_limited"].includes(error.kind) : true;
        if (!isRetryable) throw error;
      }
      // Random, so that the clients of a restarted server do not all reconnect at once.
      await new Promise((resolve) => setTimeout(resolve, delay * (0.5 + Math.random())));
      delay = Math.min(delay * 2, RECONNECT_MS_MAX);
    }
  }

  async #open(request: ApiRequest): Promise<Response> {
    const pairs = Object.entries(request.query ?? {}).filter(([, value]) => value !== undefined && value !== null);
    const search = new URLSearchParams(pairs.map(([key, value]) => [key, String(value)])).toString();
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(request.headers ?? {})) if (value !== undefined) headers[name] = value;
    if (this.#token !== undefined) headers["authorization"] = `Bearer ${this.#token}`;
    if (request.body !== undefined) headers["content-type"] = "application/json";
    const response = await this.#fetch(this.#url + request.path + (search === "" ? "" : `?${search}`), {
      method: request.method,
      headers,
      ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
      ...(request.signal === undefined ? {} : { signal: request.signal }),
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

  async *#items(request: ApiRequest): AsyncGenerator<StreamItem> {
    const silence = new AbortController();
    const signals = [silence.signal, ...(request.signal === undefined ? [] : [request.signal])];
    const startTimer = () => setTimeout(() => silence.abort(), SILENCE_MS);
    let timer = startTimer();
    try {
      const response = await this.#open({ ...request, signal: AbortSignal.any(signals) });
      if (response.body === null) return;
      let rest = "";
      let [id, kind, data]: [string | undefined, string, string[]] = [undefined, "message", []];
      const decoder = new TextDecoder();
      for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
        clearTimeout(timer);
        timer = startTimer();
        rest += decoder.decode(chunk, { stream: true });
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
