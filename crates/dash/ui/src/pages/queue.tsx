import { Page } from "../components/page";

export function Queue() {
  return <Page title="Queue">{null}</Page>;
}
