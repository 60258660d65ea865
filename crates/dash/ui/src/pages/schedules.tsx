import { Page } from "../components/page";

export function Schedules() {
  return <Page title="Schedules">{null}</Page>;
}
