// A line of filters such as `kind:video.* state:dead error:"timed out"`, with completion. What it means lives in the URL
// and is decided by the server.
import { useEffect, useRef, useState } from "preact/hooks";

export interface Field {
  name: string;
  about: string;
  /** Values to offer. */
  values?: readonly string[];
  /** Whether it may stand there more than once. */
  isMany?: boolean;
}

export type Filters = Record<string, string[]>;

interface FilterProps {
  fields: readonly Field[];
  value: Filters;
  change: (value: Filters) => void;
  placeholder: string;
}

export function Filter({ fields, value, change, placeholder }: FilterProps) {
  const written = write(value, fields);
  const [text, setText] = useState(written);
  const [at, setAt] = useState(-1);
  const [isOpen, setOpen] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (document.activeElement !== input.current || read(text, fields).unknown.length === 0) setText(written);
  }, [written]);

  const offers = isOpen ? offered(text, fields) : [];
  const { filters, unknown } = read(text, fields);
  const send = (next = text) => {
    const now = read(next, fields);
    if (now.unknown.length === 0) change(now.filters);
    setOpen(false);
  };
  const take = (offer: string) => {
    const next = text.replace(/\S*$/, "") + offer;
    setText(next);
    setAt(-1);
    input.current?.focus();
    if (!offer.endsWith(":")) send(`${next} `);
  };
  const typed = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown" && offers.length > 0) setAt((at + 1) % offers.length);
    else if (event.key === "ArrowUp" && offers.length > 0) setAt((at + offers.length - 1) % offers.length);
    else if ((event.key === "Enter" || event.key === "Tab") && offers[at]) take(offers[at].text);
    else if (event.key === "Enter") send();
    else if (event.key === "Escape") isOpen ? setOpen(false) : input.current?.blur();
    else return;
    event.preventDefault();
  };
  const isSent = JSON.stringify(filters) === JSON.stringify(read(written, fields).filters);
  return (
    <div class="filter">
      <svg viewBox="0 0 16 16" width="15" height="15" class="line-icon filter-icon" aria-hidden="true">
        <circle cx="7" cy="7" r="4.5" />
        <path d="M10.5 10.500l3.5 3.5" />
      </svg>
      <input
        ref={input}
        data-search
        type="text"
        role="combobox"
        aria-label="Filter"
        aria-expanded={offers.length > 0}
        aria-controls="filter-offers"
        aria-autocomplete="list"
        aria-activedescendant={offers[at] ? `offer-${at}` : undefined}
        aria-invalid={unknown.length > 0 && !isOpen}
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        placeholder={placeholder}
        value={text}
        onInput={(event) => (setText(event.currentTarget.value), setAt(-1), setOpen(true))}
        onFocus={() => setOpen(true)}
        onBlur={() => setTimeout(() => setOpen(false), 150)}
        onKeyDown={typed}
      />
      {text !== "" && (
        <button type="button" class="icon-button" aria-label="Clear the filter" onClick={() => (setText(""), send(""))}>
          ×
        </button>
      )}
      {!isSent && <kbd aria-hidden="true">Enter</kbd>}
      <ul id="filter-offers" class="offers" role="listbox" aria-label="Filters" hidden={offers.length === 0}>
        {offers.map((offer, index) => (
          <li key={offer.text} id={`offer-${index}`} role="option" aria-selected={index === at} onPointerDown={(event) => (event.preventDefault(), take(offer.text))}>
            <code>{offer.text}</code>
            <span>{offer.about}</span>
          </li>
        ))}
      </ul>
      {unknown.length > 0 && !isOpen && (
        <p class="filter-error" role="alert">
          {unknown[0]} is no filter; there are {fields.map((field) => field.name).join(", ")}.
        </p>
      )}
    </div>
  );
}

/** Filters as text. */
export function write(filters: Filters, fields: readonly Field[]): string {
  const parts = fields.flatMap(({ name }) => (filters[name] ?? []).map((value) => `${name}:${/[\s"]/.test(value) ? JSON.stringify(value) : value}`));
  return parts.join(" ");
}

/** Text as filters, and what in it is none. */
export function read(text: string, fields: readonly Field[]): { filters: Filters; unknown: string[] } {
  const filters: Filters = {};
  const unknown: string[] = [];
  for (const [part] of text.matchAll(/(?:[^\s"]|"(?:[^"\\]|\\.)*"?)+/g)) {
    const colon = part.indexOf(":");
    const field = fields.find(({ name }) => name === part.slice(0, colon));
    const value = unquoted(part.slice(colon + 1));
    if (colon < 0 || !field) unknown.push(part);
    else if (value !== "") filters[field.name] = field.isMany ? [...(filters[field.name] ?? []), value] : [value];
  }
  return { filters, unknown };
}

function unquoted(value: string): string {
  if (!value.startsWith('"')) return value;
  try {
    return String(JSON.parse(value));
  } catch {
    return value.replaceAll('"', "");
  }
}

/** What could stand at the end of the text. */
function offered(text: string, fields: readonly Field[]): Array<{ text: string; about: string }> {
  const word = /\S*$/.exec(text)?.[0] ?? "";
  const colon = word.indexOf(":");
  if (colon < 0) {
    return fields.filter(({ name }) => name.startsWith(word)).map(({ name, about }) => ({ text: `${name}:`, about }));
  }
  const field = fields.find(({ name }) => name === word.slice(0, colon));
  const begun = word.slice(colon + 1).toLowerCase();
  const fits = (field?.values ?? []).filter((value) => value.toLowerCase().includes(begun) && value !== begun);
  return fits.slice(0, 10).map((value) => ({ text: `${field?.name}:${/[\s"]/.test(value) ? JSON.stringify(value) : value}`, about: "" }));
}
