import { Page } from "../components/page";

export function Queues() {
  return <Page title="Queues">{null}</Page>;
}
