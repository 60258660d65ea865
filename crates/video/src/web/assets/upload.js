// An upload by the tus protocol (1.0, core and creation). It goes on after a lost connection by itself, and after a
// closed page when the same file is chosen again.

const ENDPOINT = "/api/v1/uploads";
const VERSION = { "Tus-Resumable": "1.0.0" };
/** What one request carries; what is lost with a connection is at most this. */
const PIECE = 8 * 1024 * 1024;
/** Tries without any progress before an upload is given up. */
const TRIES = 8;
/** Under which names the addresses of uploads are remembered. */
const MEMORY = "upload ";
/** Uploads of earlier visits that are looked for. */
const UNFINISHED_MAX = 20;

/** What is known again after a closed page: a file is the same if its size, its time and its name are. */
function memoryOf(file) {
  return `${MEMORY}${file.size} ${file.lastModified} ${file.name}`;
}

/** The uploads that an earlier visit began and did not end, and that nobody sends now: `{memory, name, size, sent}`. */
export async function unfinished() {
  const busy = new Set((await navigator.locks?.query())?.held.map((lock) => lock.name));
  const found = keys().filter((memory) => !busy.has(memory)).slice(0, UNFINISHED_MAX).map(async (memory) => {
    const [, size, name] = memory.slice(MEMORY.length).match(/^(\d+) \d+ (.*)$/s) ?? [];
    const answer = await fetch(remembered(memory), { method: "HEAD", headers: VERSION }).catch(() => null);
    if (!answer || answer.status === 401) return null;
    if (!name || !answer.ok) return remember(memory, null);
    return { memory, name, size: Number(size), sent: Number(answer.headers.get("Upload-Offset")) };
  });
  return (await Promise.all(found)).filter(Boolean);
}

/** Gives such an upload up; what the server has of it is removed. */
export function discard(memory) {
  const address = remembered(memory);
  remember(memory, null);
  if (address) fetch(address, { method: "DELETE", headers: VERSION }).catch(() => {});
}

export class Upload {
  /** `onprogress` is told the bytes that the server has or is getting. */
  constructor(file, onprogress) {
    this.file = file;
    this.onprogress = onprogress;
    this.offset = 0;
    this.stopped = null;
    this.request = null;
    this.memory = memoryOf(file);
  }

  /** Sends the file; returns the name of its blob. Throws when it was aborted or cannot succeed. */
  run() {
    if (this.file.size === 0) return Promise.reject(new Error("The file is empty."));
    // Other pages of this browser see by the lock that somebody sends it. Browsers have locks on trusted addresses only.
    return navigator.locks ? navigator.locks.request(this.memory, { mode: "shared" }, () => this.sendAll()) : this.sendAll();
  }

  async sendAll() {
    let tries = 0;
    for (;;) {
      const before = this.offset;
      try {
        const blob = await this.step();
        if (blob) {
          remember(this.memory, null);
          return blob;
        }
        tries = 0;
      } catch (problem) {
        if (this.stopped || problem.isFinal) throw problem;
        tries = this.offset > before ? 1 : tries + 1;
        if (tries > TRIES) throw problem;
        this.address = null;
        await rest(tries);
        if (this.stopped) throw this.stopped;
      }
    }
  }

  /** Stops for good; what the server has of it is removed. */
  abort() {
    this.stopped = Object.assign(new Error("The upload was stopped."), { isFinal: true });
    this.request?.abort();
    discard(this.memory);
  }

  /** One request further; returns the blob when the file is whole. */
  async step() {
    if (!this.address) return this.find();
    const end = Math.min(this.offset + PIECE, this.file.size);
    const answer = await this.send("PATCH", this.address, {
      headers: {
        ...VERSION,
        "Upload-Offset": String(this.offset),
        "Content-Type": "application/offset+octet-stream",
      },
      body: this.file.slice(this.offset, end),
    });
    if (answer.status !== 204 && answer.status !== 200) throw refusal(answer);
    this.offset = Number(answer.header("Upload-Offset"));
    this.onprogress(this.offset);
    return this.whole(answer);
  }

  /** Finds out where to go on: an upload from before, or a new one. */
  async find() {
    const known = remembered(this.memory);
    if (known) {
      const answer = await this.send("HEAD", known, { headers: VERSION });
      if (answer.status === 200 || answer.status === 204) {
        this.offset = Number(answer.header("Upload-Offset"));
        this.address = known;
        this.onprogress(this.offset);
        return this.whole(answer);
      }
      if (answer.status !== 404 && answer.status !== 410) throw refusal(answer);
      remember(this.memory, null);
    }
    const name = btoa(String.fromCharCode(...new TextEncoder().encode(this.file.name.slice(0, 200))));
    const answer = await this.send("POST", ENDPOINT, {
      headers: { ...VERSION, "Upload-Length": String(this.file.size), "Upload-Metadata": `filename ${name}` },
    });
    const address = answer.header("Location");
    if (answer.status !== 201 || !address) throw refusal(answer);
    this.address = new URL(address, location.href).pathname;
    this.offset = 0;
    remember(this.memory, this.address);
    return null;
  }

  whole(answer) {
    if (this.offset < this.file.size) return null;
    const blob = answer.header("Divvy-Blob");
    if (!blob) throw Object.assign(new Error("The server did not say what it stored."), { isFinal: true });
    return blob;
  }

  /** A request that tells how much of its body is gone, which `fetch` cannot. */
  send(method, address, { headers, body }) {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      this.request = request;
      request.open(method, address);
      for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
      request.upload.onprogress = (event) => this.onprogress(this.offset + event.loaded);
      request.onload = () =>
        resolve({
          status: request.status,
          text: request.responseText,
          header: (name) => request.getResponseHeader(name),
        });
      request.onerror = () => reject(new Error("The connection was lost."));
      request.onabort = () => reject(this.stopped ?? new Error("The connection was lost."));
      request.send(body);
    });
  }
}

/** What a refusal says. One that says that the request is wrong will not change its mind. */
function refusal({ status, text }) {
  let message = `The server answered ${status}.`;
  if (status === 401) return Object.assign(new Error("You are signed out. Load the page again, sign in, and choose the file again."), { isFinal: true });
  try {
    message = JSON.parse(text).error.message ?? message;
  } catch {
    // The answer was not one of ours; its status says enough.
  }
  const canPass = status >= 500 || [404, 408, 409, 410, 423, 429].includes(status);
  return Object.assign(new Error(message), { isFinal: !canPass });
}

function rest(tries) {
  const wait = new Promise((resolve) => setTimeout(resolve, Math.min(500 * 2 ** tries, 15000)));
  const online = new Promise((resolve) => addEventListener("online", resolve, { once: true }));
  return navigator.onLine ? wait : Promise.race([online, wait]);
}

// A browser may forbid storage; then an upload only survives within the page.
const places = new Map();

function keys() {
  try {
    return Object.keys(localStorage).filter((key) => key.startsWith(MEMORY));
  } catch {
    return [];
  }
}

function remembered(key) {
  try {
    return places.get(key) ?? localStorage.getItem(key);
  } catch {
    return places.get(key) ?? null;
  }
}

function remember(key, address) {
  try {
    if (address) localStorage.setItem(key, address);
    else localStorage.removeItem(key);
  } catch {
    // See above.
  }
  if (address) places.set(key, address);
  else places.delete(key);
}
