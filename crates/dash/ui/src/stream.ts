// Server-sent events that are followed for as long as somebody looks. A connection that breaks is made again with the id
// of the last event that was seen, so that the server sends what was missed; the reader is told how it stands.
// `EventSource` is not used: it cannot be paused and resumed from the same place, and hides why it is refused.
import { Refusal, send, type Address, type Asking } from "./api";

export interface Said {
  name: string;
  data: unknown;
}

export type StreamState = "connecting" | "open" | "lost";

export interface Listener {
  said: (event: Said) => void;
  state?: (state: StreamState) => void;
}

export interface Stream {
  /** Lets go of the connection, and remembers where it was. */
  pause: () => void;
  resume: () => void;
  close: () => void;
}

const AGAIN_MS_MIN = 500;
const AGAIN_MS_MAX = 8_000;

/** Follows an address. `silence_ms` without a word counts as broken, where the server speaks more often than that. */
export function watch<A extends Address>(address: A, asking: Asking<A>, listener: Listener, silence_ms = 0): Stream {
  let last: string | null = null;
  let current: AbortController | null = null;

  async function run(own: AbortController): Promise<void> {
    let again_ms = AGAIN_MS_MIN;
    while (!own.signal.aborted) {
      listener.state?.("connecting");
      try {
        const headers: Record<string, string> = last === null ? {} : { "last-event-id": last };
        const attempt = new AbortController();
        const stop = () => attempt.abort();
        own.signal.addEventListener("abort", stop);
        const response = await send(address, { ...asking, signal: attempt.signal }, headers);
        listener.state?.("open");
        again_ms = AGAIN_MS_MIN;
        await read(response, attempt, silence_ms, (event, id) => {
          if (id !== null) last = id;
          if (!own.signal.aborted) listener.said(event);
        });
        own.signal.removeEventListener("abort", stop);
      } catch (error) {
        // An address that is refused will be refused again: it is asked seldom.
        if (error instanceof Refusal && error.status >= 400 && error.status < 500) again_ms = AGAIN_MS_MAX;
      }
      if (own.signal.aborted) return;
      listener.state?.("lost");
      await new Promise((done) => setTimeout(done, again_ms));
      again_ms = Math.min(again_ms * 2, AGAIN_MS_MAX);
    }
  }

  function resume(): void {
    if (current) return;
    current = new AbortController();
    void run(current);
  }
  function pause(): void {
    current?.abort();
    current = null;
  }
  resume();
  return { pause, resume, close: pause };
}

/** A listener that calls back with each event, and when it begins to hear: what changed just before that was not heard. */
export function whenever(changed: () => void): Listener {
  return { said: changed, state: (state) => state === "open" && changed() };
}

/** Reads events until the connection ends. */
async function read(response: Response, attempt: AbortController, silence_ms: number, event: (said: Said, id: string | null) => void): Promise<void> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const heard = () => {
    clearTimeout(timer);
    if (silence_ms > 0) timer = setTimeout(() => attempt.abort(), silence_ms);
  };
  let rest = "";
  try {
    for (;;) {
      heard();
      const { done, value } = await reader.read();
      if (done) return;
      rest += value;
      const blocks = rest.split(/\r?\n\r?\n/);
      rest = blocks.pop() ?? "";
      for (const block of blocks) dispatch(block, event);
    }
  } finally {
    clearTimeout(timer);
  }
}

function dispatch(block: string, event: (said: Said, id: string | null) => void): void {
  let name = "message";
  let id: string | null = null;
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    const at = line.indexOf(":");
    if (at === 0) continue;
    const field = at < 0 ? line : line.slice(0, at);
    const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
    if (field === "event") name = value;
    else if (field === "id") id = value;
    else if (field === "data") data.push(value);
  }
  if (data.length === 0) return;
  const text = data.join("\n");
  let parsed: unknown = text;
  try {
    parsed = JSON.parse(text);
  } catch {
    // Plain text is an event too.
  }
  event({ name, data: parsed }, id);
}
