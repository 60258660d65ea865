// A form over the page, with the command that does the same. It closes when what it asks for is done.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";

import { complain } from "../toast";
import { Command } from "./command";

interface DialogProps {
  title: string;
  verb: string;
  /** The `divvy …` twin. */
  command?: string;
  /** Why it cannot be done yet. */
  hindrance?: string | null;
  /** What is done; an error is told, and the dialog stays. */
  run: () => Promise<void>;
  close: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, verb, command, hindrance, run, close, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [isBusy, setBusy] = useState(false);
  const name = useId();
  useEffect(() => dialog.current?.showModal(), []);
  const submit = async () => {
    setBusy(true);
    try {
      await run();
      close();
    } catch (error) {
      complain(error);
      setBusy(false);
    }
  };
  return (
    <dialog ref={dialog} class="dialog wide" aria-labelledby={name} onClose={close}>
      <form method="dialog" onSubmit={(event) => (event.preventDefault(), void submit())}>
        <h2 id={name}>{title}</h2>
        <div class="fields">{children}</div>
        {command && (
          <div class="twin">
            <span class="note">The same on the command line</span>
            <Command text={command} />
          </div>
        )}
        {hindrance && <p class="note hindrance">{hindrance}</p>}
        <div class="dialog-buttons">
          <button type="button" class="button" onClick={close}>
            Leave it
          </button>
          <button type="submit" class="button primary" disabled={isBusy || Boolean(hindrance)}>
            {verb}
          </button>
        </div>
      </form>
    </dialog>
  );
}

interface FieldProps {
  label: string;
  value: string;
  change: (value: string) => void;
  hint?: string;
  placeholder?: string;
  isMono?: boolean;
  isFixed?: boolean;
  isRequired?: boolean;
  type?: "text" | "number";
  /** Suggestions. */
  known?: readonly string[];
}

export function Field({ label, value, change, hint, placeholder, isMono, isFixed, isRequired, type = "text", known }: FieldProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        type={type}
        class={isMono ? "input mono" : "input"}
        value={value}
        placeholder={placeholder}
        readOnly={isFixed}
        required={isRequired}
        min={type === "number" ? 0 : undefined}
        list={known ? `${id}-known` : undefined}
        aria-describedby={hint ? `${id}-hint` : undefined}
        onInput={(event) => change(event.currentTarget.value)}
      />
      {known && (
        <datalist id={`${id}-known`}>
          {known.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
      {hint && (
        <span id={`${id}-hint`} class="note">
          {hint}
        </span>
      )}
    </div>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  value: T;
  change: (value: T) => void;
  options: ReadonlyArray<readonly [value: T, name: string]>;
}

export function Choice<T extends string>({ label, value, change, options }: ChoiceProps<T>) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select id={id} class="input" value={value} onChange={(event) => change(event.currentTarget.value as T)}>
        {options.map(([one, name]) => (
          <option key={one} value={one}>
            {name}
          </option>
        ))}
      </select>
    </div>
  );
}
