// What a pool costs, beside what other fleets would have cost over the same work.
import type { Costs as Data } from "../../api.gen";
import { Meter } from "../../components/figures";
import { millis, percent, span } from "../../format";

/** An amount of money; the unit is that of the prices in the settings. */
export function money(value: number): string {
  if (value === 0) return "0";
  return value >= 100 ? String(Math.round(value)) : value >= 0.1 ? value.toFixed(2) : value.toPrecision(2);
}

export function Costs({ costs }: { costs: Data }) {
  const most = Math.max(costs.total, costs.fixed_total, costs.hpa_total);
  const saved = costs.fixed_total > 0 ? 1 - costs.total / costs.fixed_total : 0;
  return (
    <section class="card costs">
      <h2>What it cost</h2>
      {most === 0 ? (
        <p class="note">
          The workers of this pool are free. Give their types a <code>price_hour</code> to see what they cost.
        </p>
      ) : (
        <>
          <dl class="bars">
            <Bar name="This pool" value={costs.total} most={most} tone="accent" />
            <Bar name="By the rules of Kubernetes" value={costs.hpa_total} most={most} tone="muted" />
            <Bar name="A fixed fleet at the maximum" value={costs.fixed_total} most={most} tone="muted" />
          </dl>
          <p class="note">
            In {span(Date.now() - millis(costs.since))}
            {saved > 0.005 && `; ${percent(saved)} less than the fixed fleet`}
            {costs.energy_kwh !== null && costs.energy_kwh !== undefined && `; ${costs.energy_kwh.toFixed(2)} kWh`}.
          </p>
        </>
      )}
    </section>
  );
}

function Bar({ name, value, most, tone }: { name: string; value: number; most: number; tone: "accent" | "muted" }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <Meter value={value} max={most} label={`${name}: ${money(value)}`} tone={tone} />
        <b>{money(value)}</b>
      </dd>
    </div>
  );
}
