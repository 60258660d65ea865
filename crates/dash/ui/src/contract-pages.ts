// What the API answers to these pages and the generated types do not have yet.
import type { ScheduleInput, Tick } from "./api.gen";

export interface SchedulePreview {
  words: string;
  next: Tick[];
}

declare module "./api.gen" {
  interface Answers {
    "POST /schedules/preview": SchedulePreview;
  }
  interface Bodies {
    "POST /schedules/preview": ScheduleInput;
  }
}
