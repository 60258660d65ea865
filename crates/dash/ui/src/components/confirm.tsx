// Asks before something is done, and shows the command that would do the same.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { complain } from "../toast";
import { Command } from "./command";

export interface Question {
  title: string;
  text?: ComponentChildren;
  /** The `divvy …` twin; a function if it depends on what is filled in. */
  command?: string | (() => string);
  /** What the button says. */
  verb: string;
  isDangerous?: boolean;
  /** What is done; the dialog stays until it is. An error is told, and the dialog stays open. */
  run: () => Promise<void>;
}

const question = signal<Question | null>(null);

/** Asks. */
export function confirm(asked: Question): void {
  question.value = asked;
}

/** Where questions are asked; once in the page. */
export function ConfirmPlace() {
  const asked = question.value;
  const dialog = useRef<HTMLDialogElement>(null);
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    if (asked && !dialog.current?.open) dialog.current?.showModal();
    if (!asked && dialog.current?.open) dialog.current.close();
  }, [asked]);
  const run = async () => {
    setBusy(true);
    try {
      await asked?.run();
      question.value = null;
    } catch (error) {
      complain(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="question" onClose={() => (question.value = null)}>
      {asked && (
        <form method="dialog" onSubmit={(event) => (event.preventDefault(), void run())}>
          <h2 id="question">{asked.title}</h2>
          {asked.text && <div class="dialog-text">{asked.text}</div>}
          {asked.command && (
            <div class="twin">
              <span class="note">The same on the command line</span>
              <Command text={typeof asked.command === "function" ? asked.command() : asked.command} />
            </div>
          )}
          <div class="dialog-buttons">
            <button type="button" class="button" onClick={() => (question.value = null)}>
              Leave it
            </button>
            <button type="submit" class={asked.isDangerous ? "button danger" : "button primary"} disabled={isBusy}>
              {asked.verb}
            </button>
          </div>
        </form>
      )}
    </dialog>
  );
}
