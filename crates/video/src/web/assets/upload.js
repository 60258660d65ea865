// An upload by the tus protocol (1.0, core and creation). It goes on after a lost connection by itself, and after a
// closed page when the same file is chosen again.

const ENDPOINT = "/api/v1/uploads";
const VERSION = { "Tus-Resumable": "1.0.0" };
/** What one request carries; what is lost with a connection is at most this. */
const PIECE = 8 * 1024 * 1024;
/** Tries without any progress before an upload is given up. */
const TRIES = 8;

export class Upload {
  /** `onprogress` is told the bytes that the server has or is getting. */
  constructor(file, onprogress) {
    this.file = file;
    this.onprogress = onprogress;
    this.offset = 0;
    this.stopped = null;
    this.request = null;
    this.memory = `upload ${file.size} ${file.lastModified} ${file.name}`;
  }

  /** Sends the file; returns the name of its blob. Throws when it was aborted or cannot succeed. */
  async run() {
    if (this.file.size === 0) throw new Error("The file is empty.");
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
    const address = remembered(this.memory);
    remember(this.memory, null);
    if (address) fetch(address, { method: "DELETE", headers: VERSION }).catch(() => {});
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
