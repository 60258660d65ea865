// A quick layout for large workflows: columns by the longest way from a beginning, rows by the average place of the
// neighbours (Sugiyama's method with barycentres, without nodes that only bend lines). A thousand nodes take some
// milliseconds where the thorough one takes seconds.

export interface Cell {
  column: number;
  /** From 0 for the topmost; the middle of every column is at the same height. */
  row: number;
}

/** Times that the rows are put in order, once from each side. */
const SWEEPS = 6;

/** Where each key stands. */
export function layers(keys: readonly string[], links: ReadonlyArray<{ from: string; to: string }>): Map<string, Cell> {
  const after = new Map<string, string[]>(keys.map((key) => [key, []]));
  const before = new Map<string, string[]>(keys.map((key) => [key, []]));
  for (const { from, to } of links) {
    after.get(from)?.push(to);
    before.get(to)?.push(from);
  }
  const columns: string[][] = [];
  for (const [key, column] of ranks(keys, before, after)) (columns[column] ??= []).push(key);
  const place = new Map<string, number>();
  const settle = (column: string[]) => column.forEach((key, at) => place.set(key, at - (column.length - 1) / 2));
  columns.forEach(settle);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const isForth = sweep % 2 === 0;
    const neighbours = isForth ? before : after;
    for (const column of isForth ? columns : [...columns].reverse()) {
      const middle = new Map(column.map((key) => [key, mean(neighbours.get(key) ?? [], place) ?? place.get(key) ?? 0]));
      column.sort((a, b) => (middle.get(a) ?? 0) - (middle.get(b) ?? 0));
      settle(column);
    }
  }
  const tallest = Math.max(...columns.map(({ length }) => length), 1);
  return new Map(columns.flatMap((column, at) => column.map((key) => [key, { column: at, row: (place.get(key) ?? 0) + (tallest - 1) / 2 }] as const)));
}

/** The longest way from a beginning to each key. What is in a circle, which the server refuses, stands first. */
function ranks(keys: readonly string[], before: Map<string, string[]>, after: Map<string, string[]>): Map<string, number> {
  const rank = new Map<string, number>(keys.map((key) => [key, 0]));
  const open = new Map(keys.map((key) => [key, before.get(key)?.length ?? 0]));
  const ready = keys.filter((key) => open.get(key) === 0);
  for (const key of ready) {
    for (const next of after.get(key) ?? []) {
      rank.set(next, Math.max(rank.get(next) ?? 0, (rank.get(key) ?? 0) + 1));
      const left = (open.get(next) ?? 1) - 1;
      open.set(next, left);
      if (left === 0) ready.push(next);
    }
  }
  return rank;
}

function mean(keys: readonly string[], place: Map<string, number>): number | null {
  if (keys.length === 0) return null;
  return keys.reduce((sum, key) => sum + (place.get(key) ?? 0), 0) / keys.length;
}
