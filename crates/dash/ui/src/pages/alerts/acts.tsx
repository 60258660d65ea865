// Silencing an alert, telling again, and the commands that a cure names.
import { signal } from "@preact/signals";

import { ask } from "../../api";
import type { Alert } from "../../api.gen";
import { confirm } from "../../components/confirm";
import { clock } from "../../format";
import { sentence } from "../../sentence";
import { say } from "../../toast";

const SPANS: ReadonlyArray<readonly [seconds: number, flag: string, name: string]> = [
  [900, "15m", "15 minutes"],
  [3_600, "1h", "an hour"],
  [14_400, "4h", "four hours"],
  [86_400, "1d", "a day"],
  [604_800, "7d", "a week"],
];

export function silence(rule: Alert, done: () => void): void {
  const chosen = signal(1);
  const question = () => {
    const [seconds, flag] = SPANS[chosen.value] ?? [3_600, "1h"];
    confirm({
      title: `Silence ${rule.name}?`,
      text: (
        <div class="field">
          <label for="silence-for">For how long nobody is told</label>
          <select
            id="silence-for"
            class="input"
            value={chosen.value}
            onChange={(event) => {
              chosen.value = Number(event.currentTarget.value);
              question();
            }}
          >
            {SPANS.map(([, , name], at) => (
              <option key={name} value={at}>
                {name}
              </option>
            ))}
          </select>
          <p class="note">It is still shown here while it fires.</p>
        </div>
      ),
      command: `divvy alert silence ${rule.name} --for ${flag}`,
      verb: "Silence",
      run: async () => {
        const { silenced_until } = await ask("POST /alerts/{name}/silence", { path: { name: rule.name }, body: { for_sec: seconds } });
        say(`Nobody is told of ${rule.name} until ${clock(silenced_until)}.`);
        done();
      },
    });
  };
  question();
}

export function unsilence(rule: Alert, done: () => void): void {
  confirm({
    title: `Tell of ${rule.name} again?`,
    command: `divvy alert silence ${rule.name} --end`,
    verb: "Tell again",
    run: async () => {
      await ask("DELETE /alerts/{name}/silence", { path: { name: rule.name } });
      say(`Others are told of ${rule.name} again.`);
      done();
    },
  });
}

/** A cure without the command at its end, which stands below it. */
export function withoutCommand(cure: string): string {
  return sentence(cure.replace(/: divvy .+$/, ":"));
}

/** The commands that a cure names, to copy. */
export function commandsIn(cure: string): string[] {
  const marked = [...cure.matchAll(/`(divvy [^`]+)`/g)].map((found) => found[1] as string);
  const last = /: (divvy .+)$/.exec(cure)?.[1];
  return [...new Set([...marked, ...(last ? [last.replaceAll("`", "")] : [])])];
}
