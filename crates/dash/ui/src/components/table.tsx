// Rows. Nothing moves under the pointer: while it is over the table, or the focus is in it, rows stay where they are and
// only what is in them changes; what is new waits until the pointer has left, and says so.
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";

import { go } from "../router";
import { plural } from "../format";

export interface Column<T> {
  /** What stands above it. */
  name: string;
  cell: (row: T) => ComponentChildren;
  /** Figures stand at the right. */
  isRight?: boolean;
  /** Left out where the page is narrow. */
  isWide?: boolean;
  /** What it is sorted by, where the list is whole. */
  sort?: (row: T) => number | string | null | undefined;
  class?: string;
}

export interface Selection {
  chosen: ReadonlySet<string>;
  change: (chosen: Set<string>) => void;
}

interface TableProps<T> {
  /** What the rows are, for readers who do not see them. */
  label: string;
  rows: readonly T[];
  rowKey: (row: T) => string;
  columns: ReadonlyArray<Column<T>>;
  /** Where a row leads. */
  href?: (row: T) => string | undefined;
  selection?: Selection;
  /** Rows that are another list, such as those of a filter that was just set. */
  listKey?: string;
  rowClass?: (row: T) => string | undefined;
}

export function Table<T>({ label, rows, rowKey, columns, href, selection, listKey = "", rowClass }: TableProps<T>) {
  const [isHeld, setHeld] = useState(false);
  const [order, setOrder] = useState<{ column: number; isDown: boolean } | null>(null);
  const wanted = sorted(rows, columns, order);
  const orderKey = `${listKey}|${order?.column}|${order?.isDown}`;
  const held = useRef<{ key: string; rows: readonly T[] }>({ key: orderKey, rows: wanted });
  const { shown, news } = isHeld && held.current.key === orderKey ? kept(held.current.rows, wanted, rowKey) : { shown: wanted, news: 0 };
  held.current = { key: orderKey, rows: shown };

  const opened = (event: MouseEvent | KeyboardEvent, row: T) => {
    const to = href?.(row);
    if (!to || (event.target as Element).closest("a, button, input, label, select")) return;
    if (event instanceof KeyboardEvent ? event.key !== "Enter" : String(getSelection()) !== "") return;
    event.preventDefault();
    go(to);
  };
  return (
    <div
      class="table-wrap"
      role="region"
      aria-label={label}
      tabIndex={0}
      onPointerEnter={() => setHeld(true)}
      onPointerLeave={() => setHeld(false)}
    >
      <table class="table">
        <thead>
          <tr>
            {selection && <th class="pick">{allBox(shown.map(rowKey), selection)}</th>}
            {columns.map((column, at) => heading(column, at, order, setOrder))}
          </tr>
        </thead>
        <tbody>
          {shown.map((row) => {
            const key = rowKey(row);
            return (
              <tr
                key={key}
                data-row
                tabIndex={-1}
                class={[href?.(row) ? "is-link" : "", selection?.chosen.has(key) ? "is-chosen" : "", rowClass?.(row) ?? ""].join(" ").trim() || undefined}
                onClick={(event) => opened(event, row)}
                onKeyDown={(event) => opened(event, row)}
              >
                {selection && (
                  <td class="pick">
                    <input type="checkbox" aria-label={`Select ${key}`} checked={selection.chosen.has(key)} onChange={() => selection.change(toggled(selection.chosen, key))} />
                  </td>
                )}
                {columns.map((column) => (
                  <td key={column.name} class={classes(column)}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
      {news > 0 && <div class="table-news">{plural(news, "new row")} above when the pointer leaves</div>}
    </div>
  );
}

type Order = { column: number; isDown: boolean } | null;

function heading<T>(column: Column<T>, at: number, order: Order, setOrder: (order: Order) => void) {
  const isThis = order?.column === at;
  if (!column.sort) {
    return (
      <th key={column.name} class={classes(column)} scope="col">
        {column.name}
      </th>
    );
  }
  const next = () => setOrder(!isThis ? { column: at, isDown: true } : order.isDown ? { column: at, isDown: false } : null);
  return (
    <th key={column.name} class={classes(column)} scope="col" aria-sort={!isThis ? "none" : order.isDown ? "descending" : "ascending"}>
      <button type="button" class="sort" onClick={next}>
        {column.name}
        <span aria-hidden="true">{!isThis ? "" : order.isDown ? " ↓" : " ↑"}</span>
      </button>
    </th>
  );
}

function allBox(keys: string[], { chosen, change }: Selection) {
  const isAll = keys.length > 0 && keys.every((key) => chosen.has(key));
  return <input type="checkbox" aria-label="Select all rows of this page" checked={isAll} onChange={() => change(isAll ? new Set() : new Set(keys))} />;
}

function sorted<T>(rows: readonly T[], columns: ReadonlyArray<Column<T>>, order: Order): readonly T[] {
  const by = order && columns[order.column]?.sort;
  if (!by) return rows;
  const sign = order.isDown ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [by(a), by(b)];
    // What is not known stands last either way.
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    return x < y ? -sign : x > y ? sign : 0;
  });
}

/** The rows as they stood, with what is in them now; and how many would have come. */
function kept<T>(before: readonly T[], now: readonly T[], rowKey: (row: T) => string): { shown: readonly T[]; news: number } {
  const fresh = new Map(now.map((row) => [rowKey(row), row]));
  const shown = before.map((row) => fresh.get(rowKey(row)) ?? row);
  const known = new Set(before.map(rowKey));
  return { shown, news: now.filter((row) => !known.has(rowKey(row))).length };
}

function toggled(chosen: ReadonlySet<string>, key: string): Set<string> {
  const next = new Set(chosen);
  if (!next.delete(key)) next.add(key);
  return next;
}

function classes<T>(column: Column<T>): string | undefined {
  return [column.isRight ? "right" : "", column.isWide ? "only-wide" : "", column.class ?? ""].join(" ").trim() || undefined;
}
