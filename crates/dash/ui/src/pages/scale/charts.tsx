// A pool over time: work that came against what there was room for, what is expected, and workers as steps.
import type { ForecastView, PoolStatus, Simulated } from "../../api.gen";
import { Chart } from "../../components/chart";
import { amount, count, millis } from "../../format";

type Values = Array<number | null>;

/** Load and capacity in one unit: seconds of work per second, which is slots of speed 1. */
export function LoadChart({ past, forecast, isLoading, isEmpty }: { past: Simulated | null; forecast: ForecastView | null; isLoading: boolean; isEmpty: boolean }) {
  const steps = past?.steps ?? [];
  const ahead = forecast?.ahead ?? [];
  const times = [...steps.map((step) => millis(step.at)), ...ahead.map((point) => millis(point.at))];
  const seen = (values: number[]): Values => [...values, ...ahead.map(() => null)];
  // The forecast begins where the past ends, so that the line does not break.
  const joined = (values: number[]): Values => [...steps.map((step, at) => (at === steps.length - 1 && ahead.length > 0 ? step.work_rate : null)), ...values];
  const expected = [
    { name: "expected, high", values: joined(ahead.map((point) => point.high)), colour: "--accent", isDashed: true, bandTo: "expected, low" },
    { name: "expected", values: joined(ahead.map((point) => point.rate)), colour: "--accent", isDashed: true },
    { name: "expected, low", values: joined(ahead.map((point) => point.low)), colour: "--accent", isDashed: true },
  ];
  const series = [
    { name: "room", values: seen(steps.map((step) => step.capacity)), colour: "--good", isStepped: true },
    { name: "load", values: seen(steps.map((step) => step.work_rate)), colour: "--warn", isArea: true },
    ...(ahead.length > 0 ? expected : []),
  ];
  return (
    <div class="chart-with-note">
      <Chart title="Load and room, in busy slots" times={times} series={series} write={amount} height={230} isLoading={isLoading} empty={isEmpty ? "This pool has seen no work yet." : "Nothing yet."} />
      {forecast && <p class="note">{trust(forecast)}</p>}
    </div>
  );
}

export function WorkerChart({ past, pool, isLoading }: { past: Simulated | null; pool: PoolStatus; isLoading: boolean }) {
  const steps = past?.steps ?? [];
  const flat = (value: number) => steps.map(() => value);
  const series = [
    { name: "there", values: steps.map((step) => step.workers), colour: "--accent", isStepped: true, isArea: true },
    { name: "at most", values: flat(pool.max), colour: "--muted", isDashed: true },
    { name: "at least", values: flat(pool.min), colour: "--muted", isDashed: true },
  ];
  return <Chart title="Workers" times={steps.map((step) => millis(step.at))} series={series} write={(value) => count(Math.round(value))} height={180} isLoading={isLoading} empty="This pool has seen no work yet." />;
}

function trust(forecast: ForecastView): string {
  if (forecast.trusted) return `The forecast by ${forecast.trusted} is trusted; nine of ten times the load stays below the upper edge of the band.`;
  const tried = Math.max(0, ...(forecast.forecasters ?? []).map((one) => one.tried));
  return `No forecast is drawn yet: a forecaster has to be right for a day first, and the best was tried for ${count(tried)} of 288 steps of five minutes.`;
}
