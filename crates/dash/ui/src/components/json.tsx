// JSON as people read it: keys in their order, deep parts folded, whole numbers exact, everything as text.
import { useState } from "preact/hooks";

import { plural } from "../format";
import { CopyButton } from "./command";

/** Entries of one list or object that are shown before the rest is asked for. */
const ENTRIES_MAX = 100;
/** Letters of one text that are shown before the rest is asked for. */
const LETTERS_MAX = 2_000;

export function Json({ value, name }: { value: unknown; name: string }) {
  return (
    <div class="json">
      <CopyButton text={text(value)} what={name} />
      <div class="json-text" role="region" aria-label={name} tabIndex={0}>
        <Value value={value} depth={0} />
      </div>
    </div>
  );
}

function Value({ value, depth }: { value: unknown; depth: number }) {
  if (value === null || typeof value === "boolean") return <span class="json-word">{String(value)}</span>;
  if (typeof value === "number" || typeof value === "bigint") return <span class="json-number">{String(value)}</span>;
  if (typeof value === "string") return <Text value={value} />;
  if (value === undefined) return <span class="json-word">nothing</span>;
  return <Many value={value as object} depth={depth} />;
}

function Text({ value }: { value: string }) {
  const [isWhole, setWhole] = useState(false);
  const cut = !isWhole && value.length > LETTERS_MAX;
  return (
    <>
      <span class="json-string">{JSON.stringify(cut ? value.slice(0, LETTERS_MAX) : value)}</span>
      {cut && <More text={`${plural(value.length - LETTERS_MAX, "more letter")}`} open={() => setWhole(true)} />}
    </>
  );
}

function Many({ value, depth }: { value: object; depth: number }) {
  const isList = Array.isArray(value);
  const entries = Object.entries(value);
  const [isOpen, setOpen] = useState(depth < 3 || entries.length === 0);
  const [isWhole, setWhole] = useState(false);
  const [open, close] = isList ? ["[", "]"] : ["{", "}"];
  if (entries.length === 0) return <span>{open + close}</span>;
  if (!isOpen) return <More text={`${open} ${plural(entries.length, isList ? "item" : "key")} ${close}`} open={() => setOpen(true)} />;
  const shown = isWhole ? entries : entries.slice(0, ENTRIES_MAX);
  return (
    <>
      {open}
      <div class="json-inside">
        {shown.map(([key, one], at) => (
          <div key={key}>
            {!isList && <span class="json-key">{JSON.stringify(key)}: </span>}
            <Value value={one} depth={depth + 1} />
            {at < entries.length - 1 && ","}
          </div>
        ))}
        {shown.length < entries.length && <More text={`${plural(entries.length - shown.length, "more")}`} open={() => setWhole(true)} />}
      </div>
      {close}
    </>
  );
}

function More({ text, open }: { text: string; open: () => void }) {
  return (
    <button type="button" class="json-more" onClick={open}>
      {text}
    </button>
  );
}

function text(value: unknown): string {
  // What is a `bigint` here was a number there.
  const marked = JSON.stringify(value, (_key, one) => (typeof one === "bigint" ? `\u0000${one}` : one), 2) ?? "";
  return marked.replace(/"\\u0000(-?\d+)"/g, "$1");
}
