// The log of a task, which follows until the task has ended. It stays at its end unless somebody scrolls up.
import { useEffect, useRef, useState } from "preact/hooks";

import { send } from "../api";
import { CopyButton } from "./command";

/** Letters that are kept on the page; the beginning goes first. */
const LETTERS_MAX = 400_000;

export function Log({ id, isOpen }: { id: string; isOpen: boolean }) {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const place = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    const stop = new AbortController();
    setText("");
    setProblem(null);
    void (async () => {
      try {
        const response = await send("GET /tasks/{id}/log", { path: { id }, query: { follow: isOpen }, signal: stop.signal });
        const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
        for (;;) {
          const piece = await reader?.read();
          if (!piece || piece.done) return;
          setText((before) => (before + piece.value).slice(-LETTERS_MAX));
        }
      } catch (error) {
        if (!stop.signal.aborted) setProblem((error as Error).message);
      }
    })();
    return () => stop.abort();
  }, [id, isOpen]);
  useEffect(() => {
    if (isAtEnd.current && place.current) place.current.scrollTop = place.current.scrollHeight;
  }, [text]);
  const scrolled = () => {
    const element = place.current;
    if (element) isAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < 24;
  };
  return (
    <section class="card" aria-label="Log">
      <div class="card-head">
        <h2>Log</h2>
        {isOpen && <span class="note">follows</span>}
        <span class="right-end">{text && <CopyButton text={text} what="the log" />}</span>
      </div>
      {problem && <p class="bad-text">{problem}</p>}
      {text ? (
        <pre ref={place} class="log" tabIndex={0} aria-label="Text of the log" onScroll={scrolled}>
          {text}
        </pre>
      ) : (
        !problem && <p class="muted">{isOpen ? "Nothing was written yet." : "It wrote nothing."}</p>
      )}
    </section>
  );
}
