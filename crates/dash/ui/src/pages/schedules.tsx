// Schedules: tasks that come by the calendar; when they come next, and editing with a look at the ticks ahead.
import { useState } from "preact/hooks";

import { ask } from "../api";
import type { ScheduleView } from "../api.gen";
import { quoted } from "../components/command";
import { confirm } from "../components/confirm";
import { Empty, ErrorPanel, Loading } from "../components/notices";
import { Page } from "../components/page";
import { Table, type Column } from "../components/table";
import { ago, shortId } from "../format";
import { useLoad } from "../load";
import { may } from "../me";
import { say } from "../toast";
import { Editor } from "./schedules/editor";
import { localTick } from "./schedules/ticks";

export function Schedules() {
  const schedules = useLoad("schedules", (signal) => ask("GET /schedules", { signal }), 5);
  const [edited, setEdited] = useState<ScheduleView | "new" | null>(null);
  const list = schedules.data?.items ?? [];
  const add = (
    <button type="button" class="button small primary" onClick={() => setEdited("new")}>
      New schedule…
    </button>
  );
  const columns = may("admin") ? [...COLUMNS, acts(setEdited, schedules.reload)] : COLUMNS;
  return (
    <Page title="Schedules" about="Tasks that come by themselves, by the calendar of any time zone." actions={may("admin") && add}>
      {schedules.error && <ErrorPanel error={schedules.error} retry={schedules.reload} />}
      {!schedules.data && !schedules.error && <Loading />}
      {schedules.data && list.length === 0 && (
        <Empty
          title="Nothing is scheduled"
          text="A schedule submits a task at every tick of a calendar: each night, every 90 seconds, on the last Friday of a month."
          commands={["divvy schedule set nightly --cron '0 3 * * *' --zone Europe/Berlin --kind noop", "divvy schedule set beat --every 90s --kind noop", "divvy schedule preview '0 18 L * *'"]}
        />
      )}
      {list.length > 0 && (
        <section class="card flush">
          <Table label="Schedules" rows={list} rowKey={(one) => one.name} columns={columns} />
        </section>
      )}
      {edited && <Editor before={edited === "new" ? null : edited} close={() => setEdited(null)} done={schedules.reload} />}
    </Page>
  );
}

const COLUMNS: ReadonlyArray<Column<ScheduleView>> = [
  {
    name: "Name",
    sort: (one) => one.name,
    cell: (one) => (
      <>
        <b>{one.name}</b>
        <br />
        <State schedule={one} />
      </>
    ),
  },
  {
    name: "When",
    class: "wraps",
    cell: (one) => (
      <>
        {one.words}
        <br />
        <code class="note">{one.schedule.cron}</code>
      </>
    ),
  },
  {
    name: "Next",
    cell: (one) => (one.next[0] ? <Next at={one.next[0].at} local={one.next[0].local} /> : "–"),
    sort: (one) => one.next[0]?.at,
  },
  {
    name: "Task",
    isWide: true,
    cell: (one) => (
      <>
        {one.schedule.task.kind} <span class="note">in {one.schedule.task.queue ?? "default"}</span>
        <br />
        <span class="note">{one.last_task ? <a href={`/tasks/${one.last_task}`}>the last one</a> : "none yet"}</span>
      </>
    ),
  },
];

function State({ schedule }: { schedule: ScheduleView }) {
  if (schedule.refused) {
    return (
      <span class="chip bad" title={schedule.refused.problem}>
        refused
      </span>
    );
  }
  if (schedule.schedule.paused) return <span class="chip warn">paused</span>;
  return schedule.next.length > 0 ? <span class="chip good">active</span> : <span class="chip">over</span>;
}

function Next({ at, local }: { at: string; local: string }) {
  return (
    <>
      {ago(at)}
      <br />
      <span class="note">
        {localTick(local)}
      </span>
    </>
  );
}

function acts(edit: (schedule: ScheduleView) => void, done: () => void): Column<ScheduleView> {
  return {
    name: "Actions",
    class: "acts",
    cell: (one) => (
      <>
        <button type="button" class="button small quiet" onClick={() => edit(one)}>
          Edit<span class="unseen"> {one.name}</span>
        </button>
        <button type="button" class="button small quiet" onClick={() => trigger(one, done)}>
          Run now<span class="unseen"> {one.name}</span>
        </button>
        <button type="button" class="button small quiet" onClick={() => rest(one, done)}>
          {one.schedule.paused ? "Resume" : "Pause"}
          <span class="unseen"> {one.name}</span>
        </button>
        <button type="button" class="button small quiet" onClick={() => remove(one, done)}>
          Remove<span class="unseen"> {one.name}</span>
        </button>
      </>
    ),
  };
}

function trigger(schedule: ScheduleView, done: () => void): void {
  confirm({
    title: `Run ${schedule.name} now?`,
    text: "Its task is submitted once, whatever the calendar says. The ticks ahead stay.",
    command: `divvy schedule trigger ${quoted(schedule.name)}`,
    verb: "Run now",
    run: async () => {
      const { task } = await ask("POST /schedules/{name}/trigger", { path: { name: schedule.name } });
      say(`Task ${shortId(task)} was submitted.`);
      done();
    },
  });
}

function rest(schedule: ScheduleView, done: () => void): void {
  const isPaused = schedule.schedule.paused ?? false;
  confirm({
    title: isPaused ? `Let ${schedule.name} tick again?` : `Pause ${schedule.name}?`,
    text: isPaused ? "Ticks of the rest are not made up for." : "It submits nothing until it is resumed. Tasks that it submitted go on.",
    command: `divvy schedule ${isPaused ? "resume" : "pause"} ${quoted(schedule.name)}`,
    verb: isPaused ? "Resume" : "Pause",
    run: async () => {
      await ask(isPaused ? "POST /schedules/{name}/resume" : "POST /schedules/{name}/pause", { path: { name: schedule.name } });
      say(isPaused ? `${schedule.name} ticks again.` : `${schedule.name} rests.`);
      done();
    },
  });
}

function remove(schedule: ScheduleView, done: () => void): void {
  confirm({
    title: `Remove schedule ${schedule.name}?`,
    text: "It is forgotten. Tasks that it submitted stay.",
    command: `divvy schedule remove ${quoted(schedule.name)}`,
    verb: "Remove",
    isDangerous: true,
    run: async () => {
      await ask("DELETE /schedules/{name}", { path: { name: schedule.name } });
      say(`Schedule ${schedule.name} is gone.`);
      done();
    },
  });
}
