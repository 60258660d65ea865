import { Page } from "../components/page";

export function TaskPage() {
  return <Page title="Task">{null}</Page>;
}
