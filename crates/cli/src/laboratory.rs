//! The lab in the server of this process: experiments and plans that people run from a page.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use divvy_lab::plan::{Plan, answer, show};
use divvy_lab::report::drawn;
use divvy_lab::{Progress, Settings, child};
use divvy_server::lab::{self, Asked, Experiment, Lab, Laboratory, Prepared, Refused};

use crate::suggest;

/// Days of a plan that a page may ask for at most: its answer shall come in minutes.
const DAYS_MAX: f64 = 7.0;
/// A larger plan is not one.
const PLAN_BYTES_MAX: usize = 1_000_000;

/// The experiments and plans of `divvy-lab`.
struct Experiments;

/// What a server gets.
pub(crate) fn lab() -> Lab {
    // Without it only experiments that need processes of their own fail, and say so.
    if let Ok(program) = std::env::current_exe() {
        child::provide(program);
    }
    Lab(Arc::new(Experiments))
}

impl Laboratory for Experiments {
    fn experiments(&self) -> Vec<Experiment> {
        let told = |one: &divvy_lab::Experiment| Experiment {
            name: one.name.to_owned(),
            summary: one.summary.to_owned(),
            timing: one.timing,
        };
        divvy_lab::all().iter().map(told).collect()
    }

    fn prepare(&self, asked: Asked) -> Result<Prepared, Refused> {
        match asked {
            Asked::Experiment { name, seed, quick } => {
                let Some(experiment) = divvy_lab::find(&name) else {
                    let hint = suggest::hint(&name, divvy_lab::all().iter().map(|one| one.name));
                    let name: String = name.chars().take(64).collect();
                    let message = format!("no experiment is named `{name}`{hint}");
                    return Err(Refused::NoSuchExperiment(message));
                };
                Ok(Box::new(move |tell, stop| {
                    let run = |progress: &mut Progress<'_>| {
                        (experiment.run)(&Settings { seed, quick }, progress)
                    };
                    with_progress(tell, stop, run).map_err(|e| e.to_string()).map(drawn)
                }))
            }
            Asked::Plan { text, days, seeds } => {
                let plan = read(&text, days, seeds).map_err(Refused::BadPlan)?;
                Ok(Box::new(move |tell, stop| {
                    // One thread: the server and its workers need the others.
                    let run = |progress: &mut Progress<'_>| answer(&plan, 1, progress);
                    let found = with_progress(tell, stop, run).map_err(|e| e.to_string())?;
                    Ok(drawn(show::report(&found)))
                }))
            }
        }
    }
}

fn with_progress<T>(
    tell: &mut dyn FnMut(lab::Step<'_>),
    stop: &AtomicBool,
    run: impl FnOnce(&mut Progress<'_>) -> T,
) -> T {
    let mut watch = |step: divvy_lab::experiment::Step<'_>| {
        tell(lab::Step { what: step.what, done: step.done, total: step.total });
    };
    run(&mut Progress::new(&mut watch, stop))
}

/// A plan from its text. It cannot name a trace: a page may not read files of the server.
fn read(text: &str, days: Option<f64>, seeds: Option<u32>) -> Result<Plan, String> {
    if text.len() > PLAN_BYTES_MAX {
        return Err(format!("has {} bytes, at most {PLAN_BYTES_MAX}", text.len()));
    }
    let mut plan: Plan =
        serde_saphyr::from_str(text).map_err(|error| format!("cannot be read: {error}"))?;
    if plan.arrivals.trace.is_some() {
        let cure = "say arrivals.per_hour, or use `divvy plan` on your machine";
        return Err(format!("names a trace, which a page cannot read; {cure}"));
    }
    plan.days = days.unwrap_or(plan.days);
    plan.seeds = seeds.unwrap_or(plan.seeds);
    if plan.days > DAYS_MAX {
        let cure = "use `divvy plan` for more";
        return Err(format!("has {} days, at most {DAYS_MAX} from a page; {cure}", plan.days));
    }
    plan.check().map_err(|wrong| wrong.to_string())?;
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use divvy_server::lab::Report;

    use super::*;

    const PLAN: &str = "
arrivals: { per_hour: 60 }
stages: [{ name: encode, sec: 30 }]
goal: { percentile: 95, within_sec: 120 }
workers: [{ name: small, slots: 1, price_hour: 0.1, max: 20 }]
days: 0.05
seeds: 1
";

    fn run(asked: Asked) -> Result<Report, String> {
        let Ok(prepared) = Experiments.prepare(asked) else { panic!("it is refused") };
        let mut steps = 0;
        let report = prepared(&mut |_| steps += 1, &AtomicBool::new(false));
        assert!(steps > 0, "it tells how far it is");
        report
    }

    #[test]
    fn an_experiment_and_a_plan_have_reports_with_drawings() {
        let name = "ring".to_owned();
        let found = run(Asked::Experiment { name, seed: 1, quick: true }).unwrap();
        assert!(!found.tables.is_empty() && !found.verdicts.is_empty(), "{found:?}");
        assert!(found.charts.iter().all(|chart| chart.svg.starts_with("<svg")), "{found:?}");
        let plan = Asked::Plan { text: PLAN.to_owned(), days: None, seeds: None };
        let found = run(plan).unwrap();
        assert!(!found.tables.is_empty() && !found.charts.is_empty(), "{found:?}");
    }

    #[test]
    fn what_is_not_there_or_makes_no_sense_is_refused_before_it_begins() {
        let refused = |asked| match Experiments.prepare(asked) {
            Ok(_) => panic!("it is taken"),
            Err(Refused::NoSuchExperiment(message) | Refused::BadPlan(message)) => message,
        };
        let name = "rings".to_owned();
        let message = refused(Asked::Experiment { name, seed: 1, quick: true });
        assert!(message.contains("ring"), "{message}");
        for (text, days, says) in [
            ("goal: [", None, "cannot be read"),
            (PLAN, Some(30.0), "at most 7"),
            (&PLAN.replace("per_hour: 60", "trace: /etc/passwd"), None, "names a trace"),
            (&PLAN.replace("sec: 30", "sec: -1"), None, "stages"),
        ] {
            let message = refused(Asked::Plan { text: text.to_owned(), days, seeds: None });
            assert!(message.contains(says), "{message}");
        }
    }
}
