// Which address shows which page.
import { Alerts } from "./pages/alerts";
import { Dead } from "./pages/dead";
import { Lab } from "./pages/lab";
import { Limits } from "./pages/limits";
import { Overview } from "./pages/overview";
import { Plan } from "./pages/plan";
import { Queue } from "./pages/queue";
import { Queues } from "./pages/queues";
import { Scale } from "./pages/scale";
import { Schedules } from "./pages/schedules";
import { TaskPage } from "./pages/task";
import { Tasks } from "./pages/tasks";
import { Workers } from "./pages/workers";
import { WorkflowPage } from "./pages/workflow";
import { Workflows } from "./pages/workflows";
import type { PageRoute } from "./router";

export const ROUTES: PageRoute[] = [
  { pattern: "/", title: "Overview", page: Overview },
  { pattern: "/tasks", title: "Tasks", page: Tasks },
  { pattern: "/tasks/{id}", title: "Task", page: TaskPage },
  { pattern: "/queues", title: "Queues", page: Queues },
  { pattern: "/queues/{name}", title: "Queue", page: Queue },
  { pattern: "/workflows", title: "Workflows", page: Workflows },
  { pattern: "/workflows/{id}", title: "Workflow", page: WorkflowPage },
  { pattern: "/workers", title: "Workers", page: Workers },
  { pattern: "/limits", title: "Limits", page: Limits },
  { pattern: "/schedules", title: "Schedules", page: Schedules },
  { pattern: "/dead", title: "Dead letters", page: Dead },
  { pattern: "/scale", title: "Scale", page: Scale },
  { pattern: "/alerts", title: "Alerts", page: Alerts },
  { pattern: "/lab", title: "Lab", page: Lab },
  { pattern: "/plan", title: "Plan", page: Plan },
];
