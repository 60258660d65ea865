// What an experiment or a plan found: verdicts first, then charts, tables and what it ran with.
import { Fragment } from "preact";
import { useEffect, useRef } from "preact/hooks";

import type { LabCell, LabReport as Data, LabTable } from "../../api.gen";

export function Report({ report }: { report: Data }) {
  return (
    <div class="report">
      <h2>{report.title}</h2>
      <p class="lead">{report.shows}</p>
      {report.findings.length > 0 && <Sentences name="What this run shows" lines={report.findings} />}
      <Verdicts report={report} />
      {report.charts.map((chart, at) => (
        <figure class="report-chart" key={at}>
          <figcaption>
            <b>{chart.title}</b>
            {chart.note && <span class="note"> {chart.note}</span>}
          </figcaption>
          <Drawing svg={chart.svg} />
        </figure>
      ))}
      {report.tables.map((table, at) => (
        <Figures table={table} key={at} />
      ))}
      {report.lessons.length > 0 && <Sentences name="What to take from it" lines={report.lessons} />}
      {report.parameters.length > 0 && (
        <details>
          <summary>What it ran with</summary>
          <dl class="facts">
            {report.parameters.map(({ name, value }) => (
              <Fragment key={name}>
                <dt>{name}</dt>
                <dd>{cell(value)}</dd>
              </Fragment>
            ))}
          </dl>
        </details>
      )}
    </div>
  );
}

function Sentences({ name, lines }: { name: string; lines: string[] }) {
  return (
    <section>
      <h3>{name}</h3>
      <ul class="sentences">
        {lines.map((line, at) => (
          <li key={at}>{line}</li>
        ))}
      </ul>
    </section>
  );
}

function Verdicts({ report }: { report: Data }) {
  if (report.verdicts.length === 0) return null;
  return (
    <section>
      <h3>Targets</h3>
      <div class="table-wrap" role="region" aria-label="Targets" tabIndex={0}>
        <table class="table">
          <thead>
            <tr>
              <th scope="col">What</th>
              <th scope="col">Wanted</th>
              <th scope="col">Measured</th>
              <th scope="col">Verdict</th>
            </tr>
          </thead>
          <tbody>
            {report.verdicts.map((verdict, at) => (
              <tr key={at}>
                <td>{verdict.what}</td>
                <td>{verdict.target}</td>
                <td>{verdict.measured}</td>
                <td>
                  <span class={verdict.met ? "chip good" : "chip bad"}>{verdict.met ? "met" : "missed"}</span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Figures({ table }: { table: LabTable }) {
  return (
    <section>
      <h3>{table.caption}</h3>
      <div class="table-wrap" role="region" aria-label={table.caption} tabIndex={0}>
        <table class="table">
          <thead>
            <tr>
              {table.columns.map((column, at) => (
                <th key={at} scope="col" class={column.kind === "text" ? undefined : "right"}>
                  {column.name}
                  {column.unit && <span class="note"> {column.unit}</span>}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {table.rows.map((row, at) => (
              <tr key={at}>
                {row.map((value, place) => (
                  <td key={place} class={typeof value === "number" ? "right" : "wraps"}>
                    {cell(value, precision(table, place))}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** A drawing of the server. It is read as SVG, and only what draws is taken over: no script, no style, no link. */
function Drawing({ svg }: { svg: string }) {
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // As in a page, where a drawing need not say that it is SVG.
    const read = new DOMParser().parseFromString(svg, "text/html").querySelector("svg");
    if (!read) return;
    for (const one of [...read.querySelectorAll("script, style, foreignObject, a")]) one.remove();
    for (const one of [read, ...read.querySelectorAll("*")]) {
      for (const name of one.getAttributeNames()) if (/^(on|style$|href$|xlink:)/i.test(name)) one.removeAttribute(name);
    }
    frame.current?.replaceChildren(document.importNode(read, true));
  }, [svg]);
  return <div ref={frame} class="drawing" />;
}

/** Decimals of a column of numbers. */
function precision(table: LabTable, place: number): number | undefined {
  const kind = table.columns[place]?.kind;
  return typeof kind === "object" ? kind.number.precision : undefined;
}

function cell(value: LabCell | null, precision?: number): string {
  if (value === null) return "–";
  if (typeof value === "string") return value;
  return value.toLocaleString("en", { maximumFractionDigits: precision ?? 3, minimumFractionDigits: precision ?? 0 }).replaceAll(",", "\u202f");
}
