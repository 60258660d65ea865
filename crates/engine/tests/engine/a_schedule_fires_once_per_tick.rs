//! Schedules over restarts, pauses and clocks that are set.

use crate::support::World;
use divvy_engine::schedules::{check, tick_id};
use divvy_engine::{Error, Request, ScheduleRequest};
use divvy_types::schedule::{CatchUp, Overlap, Schedule, Template};
use divvy_types::settings::Limit;
use divvy_types::{Settings, TaskId, TaskState, Timestamp};

const HOUR_MS: u64 = 3_600_000;
const MINUTE_MS: u64 = 60_000;

fn hourly() -> Schedule {
    Schedule::new("@hourly", Template::new("noop"))
}

fn hour(number: u64) -> Timestamp {
    Timestamp(0).plus_ms(number * HOUR_MS)
}

trait Scheduling {
    fn set(&mut self, name: &str, schedule: Schedule) -> Result<(), Error>;
    fn pause(&mut self, name: &str, paused: bool) -> Result<(), Error>;
    fn remove(&mut self, name: &str) -> Result<(), Error>;
    fn trigger(&mut self, name: &str) -> Result<TaskId, Error>;
    fn at(&mut self, time: Timestamp);
    fn open(&self) -> usize;
}

impl Scheduling for World {
    fn set(&mut self, name: &str, schedule: Schedule) -> Result<(), Error> {
        let calendar = Box::new(check(name, &schedule)?);
        let (name, schedule) = (name.into(), Box::new(schedule));
        self.ask(|reply| ScheduleRequest::Set { name, schedule, calendar, reply }.into())
    }

    fn pause(&mut self, name: &str, paused: bool) -> Result<(), Error> {
        self.ask(|reply| ScheduleRequest::Pause { name: name.into(), paused, reply }.into())
    }

    fn remove(&mut self, name: &str) -> Result<(), Error> {
        self.ask(|reply| ScheduleRequest::Remove { name: name.into(), reply }.into())
    }

    fn trigger(&mut self, name: &str) -> Result<TaskId, Error> {
        self.ask(|reply| ScheduleRequest::Trigger { name: name.into(), reply }.into())
    }

    /// Lets time pass up to a moment, as the loop would: by way of every deadline.
    fn at(&mut self, time: Timestamp) {
        while let Some(deadline) = self.engine.next_deadline().filter(|at| *at <= time) {
            self.now = self.now.max(deadline);
            self.engine.pass_time(self.now).expect("the store is readable");
        }
        self.now = time;
        self.engine.pass_time(time).expect("the store is readable");
    }

    fn open(&self) -> usize {
        self.engine.core().scheduler().open_before(None).count()
    }
}

/// What a worker gets that comes, finishes everything and leaves: the ticks of the tasks.
fn run(world: &mut World) -> Vec<Option<Timestamp>> {
    let mut worker = world.join("w", 16, vec![]);
    let mut ticks = Vec::new();
    loop {
        let grants = worker.grants();
        if grants.is_empty() {
            break;
        }
        for granted in grants {
            ticks.push(granted.spec.run_at);
            world.finish(&worker, &granted);
        }
    }
    let gone = Request::Disconnect { worker: worker.key };
    world.engine.step(world.now, gone).expect("the store is readable");
    ticks
}

#[test]
fn each_tick_submits_one_task_and_the_loop_waits_for_nothing_else() {
    let mut world = World::new();
    assert_eq!(world.engine.next_deadline(), None);
    world.set("h", hourly()).unwrap();
    assert_eq!(world.engine.next_deadline(), Some(hour(1)));
    world.at(Timestamp(hour(1).0 - 1));
    assert_eq!(run(&mut world), []);
    world.at(hour(3));
    assert_eq!(run(&mut world), [1, 2, 3].map(|n| Some(hour(n))));
    world.at(hour(3).plus_ms(MINUTE_MS));
    assert_eq!(run(&mut world), []);
    assert_eq!(world.engine.next_deadline(), Some(hour(4)));
}

#[test]
fn a_tick_fires_once_over_stops_and_crashes() {
    for crashes in [false, true] {
        let mut world = World::new();
        world.set("h", hourly()).unwrap();
        let again = |world: World, ms| if crashes { world.crash(ms) } else { world.restart(ms) };
        // Before the tick, and back before it.
        world.at(Timestamp(hour(1).0 - 1_000_000));
        world = again(world, 500);
        assert_eq!(world.engine.next_deadline(), Some(hour(1)));
        assert_eq!(world.open(), 0);
        world.at(hour(1));
        assert_eq!(world.open(), 1);
        // After the tick: what is committed is not done again.
        for _ in 0..3 {
            world = again(world, 1);
            world.at(world.now.plus_ms(1));
            assert_eq!(world.open(), 1);
        }
        // Down at the tick, and back soon after it.
        world.at(Timestamp(hour(2).0 - 1_000_000));
        world = again(world, 2_000);
        assert!(world.engine.next_deadline().unwrap() <= world.now, "the tick waits no longer");
        world.at(world.now);
        assert_eq!(world.open(), 2);
        assert_eq!(world.state(tick_id("h", hour(2))), Some(TaskState::Ready));
    }
}

/// Whatever stops, crashes, jumps and setbacks come between: in the end each tick has one task.
#[test]
fn every_tick_has_exactly_one_task_after_any_life() {
    for seed in 1..=40_u64 {
        let mut chance = seed;
        let mut draw = |below: u64| {
            // The generator of Lehmer and Park-Miller: enough to vary the story.
            chance = chance * 48_271 % 0x7fff_ffff;
            chance % below
        };
        let mut schedule = Schedule::new("*/7 * * * *", Template::new("noop"));
        schedule.catch_up = CatchUp::All;
        schedule.jitter_ms = if seed % 3 == 0 { 3 * MINUTE_MS } else { 0 };
        let calendar = check("s", &schedule).unwrap();
        let mut world = World::new();
        let set_at = world.now;
        world.set("s", schedule).unwrap();
        for _ in 0..40 {
            let ms = draw(40 * MINUTE_MS);
            world = match draw(6) {
                0 => world.crash(ms),
                1 => world.restart(ms),
                2 => world.crash_without("schedule-tick/s"),
                story => {
                    match story {
                        3 => world.at(world.now.plus_ms(ms)),
                        4 => world.advance_ms(ms),
                        _ => {
                            let past = Timestamp(world.now.0.saturating_sub(ms * 1_000));
                            world.engine.pass_time(past).unwrap();
                        }
                    }
                    world
                }
            };
        }
        // Until the jitter of the last one has passed.
        let last = world.now;
        world.at(last.plus_ms(3 * MINUTE_MS));
        let ticks: Vec<Timestamp> =
            calendar.ticks_after(set_at).take_while(|tick| *tick <= last).collect();
        assert!(ticks.len() > 20, "a life of some length");
        for tick in &ticks {
            assert_eq!(world.state(tick_id("s", *tick)), Some(TaskState::Ready), "{seed}: {tick}");
        }
        let later = calendar.ticks_after(last).take_while(|tick| *tick <= world.now);
        let later = later.filter(|tick| world.state(tick_id("s", *tick)).is_some()).count();
        assert_eq!(world.open(), ticks.len() + later, "{seed}: no task but those of ticks");
    }
}

#[test]
fn a_tick_whose_record_was_lost_is_known_by_its_id() {
    let mut world = World::new();
    let mut schedule = hourly();
    schedule.catch_up = CatchUp::All;
    world.set("h", schedule.clone()).unwrap();
    world.at(hour(2));
    assert_eq!(world.open(), 2);
    assert_eq!(run(&mut world).len(), 2);
    // The record of how far it is disappears, as in a copy of older data; the tasks are there.
    world = world.crash_without("schedule-tick/h");
    world.at(world.now.plus_ms(1));
    assert_eq!(world.open(), 0, "both ticks were known, though finished");
    // So they are if the template has changed since.
    schedule.task.priority = 5;
    world.set("h", schedule).unwrap();
    world.at(hour(3));
    assert_eq!(world.open(), 1);
}

#[test]
fn missed_ticks_are_dropped_joined_or_made_up_for() {
    for (catch_up, down_hours, expected) in [
        (CatchUp::Skip, 5, vec![]),
        (CatchUp::Last, 5, vec![5]),
        (CatchUp::All, 5, vec![1, 2, 3, 4, 5]),
    ] {
        let mut world = World::new();
        let mut schedule = hourly();
        schedule.catch_up = catch_up;
        world.set("h", schedule).unwrap();
        let down_ms = hour(down_hours).plus_ms(30 * MINUTE_MS).since(world.now).as_millis() as u64;
        let mut world = world.crash(down_ms);
        world.at(world.now);
        let expected: Vec<_> = expected.into_iter().map(|n| Some(hour(n))).collect();
        assert_eq!(run(&mut world), expected, "{catch_up:?}");
        // It goes on as if nothing had been.
        world.at(hour(down_hours + 1));
        assert_eq!(run(&mut world), [Some(hour(down_hours + 1))], "{catch_up:?}");
    }
}

#[test]
fn what_is_made_up_for_has_a_limit() {
    let mut world = World::new();
    let mut schedule = Schedule::new("@every 1s", Template::new("noop"));
    schedule.catch_up = CatchUp::All;
    world.set("s", schedule).unwrap();
    let mut world = world.crash(10 * HOUR_MS);
    world.engine.pass_time(world.now).unwrap();
    assert_eq!(world.open(), 1_000);
    assert!(world.state(tick_id("s", world.now)).is_some(), "the newest ones are made up for");
}

#[test]
fn a_clock_that_jumps_forward_is_like_a_downtime_and_one_that_goes_back_fires_nothing_again() {
    let mut world = World::new();
    world.set("skip", hourly()).unwrap();
    let mut last = hourly();
    last.catch_up = CatchUp::Last;
    world.set("last", last).unwrap();
    world.now = hour(10).plus_ms(5 * MINUTE_MS);
    world.engine.pass_time(world.now).unwrap();
    assert_eq!(world.state(tick_id("skip", hour(10))), None);
    assert_eq!(world.state(tick_id("last", hour(10))), Some(TaskState::Ready));
    assert_eq!(world.open(), 1);
    // Back in time, while it runs and over a restart.
    for past in [hour(9), hour(9).plus_ms(1)] {
        world.engine.pass_time(past).unwrap();
        assert_eq!(world.open(), 1);
    }
    world.now = hour(8);
    let mut world = world.crash(0);
    world.at(hour(10).plus_ms(6 * MINUTE_MS));
    assert_eq!(world.state(tick_id("last", hour(9))), None, "it stands where it stood");
    assert_eq!(world.state(tick_id("last", hour(10))), Some(TaskState::Ready));
}

#[test]
fn a_schedule_that_a_wrong_clock_took_days_ahead_goes_on_after_a_restart() {
    let mut world = World::new();
    world.set("h", hourly()).unwrap();
    world.now = hour(9 * 24);
    world.engine.pass_time(world.now).unwrap();
    assert_eq!(world.open(), 1);
    world.now = hour(3).plus_ms(1);
    let mut world = world.crash(0);
    world.at(hour(4));
    assert_eq!(world.state(tick_id("h", hour(4))), Some(TaskState::Ready));
    assert_eq!(world.open(), 2);
}

#[test]
fn two_triggers_at_one_moment_are_two_tasks() {
    let mut world = World::new();
    world.set("h", hourly()).unwrap();
    let first = world.trigger("h").unwrap();
    assert_ne!(world.trigger("h").unwrap(), first);
}

#[test]
fn a_paused_schedule_rests_over_restarts_and_makes_up_for_nothing() {
    let mut world = World::new();
    let mut schedule = hourly();
    schedule.catch_up = CatchUp::All;
    world.set("h", schedule.clone()).unwrap();
    world.pause("h", true).unwrap();
    assert_eq!(world.engine.next_deadline(), None, "nothing to wait for");
    world.at(hour(3));
    let mut world = world.restart(HOUR_MS);
    world.at(world.now);
    // Set again without a word about it, it stays paused.
    world.set("h", schedule).unwrap();
    assert_eq!((world.open(), world.engine.next_deadline()), (0, None));
    world.pause("h", false).unwrap();
    assert_eq!(world.engine.next_deadline(), Some(hour(5)));
    world.at(hour(5));
    assert_eq!(world.open(), 1);
    assert_eq!(world.pause("x", true).unwrap_err().code(), "no_such_schedule");
}

#[test]
fn a_tick_is_skipped_while_the_last_task_is_open_if_overlap_says_so() {
    let mut world = World::new();
    let mut schedule = hourly();
    schedule.overlap = Overlap::Skip;
    world.set("h", schedule).unwrap();
    world.at(hour(3));
    assert_eq!(world.open(), 1, "the first is still open");
    // It is remembered over a crash.
    let mut world = world.crash(1);
    world.at(hour(4));
    assert_eq!(world.open(), 1);
    assert_eq!(run(&mut world), [Some(hour(1))]);
    world.at(hour(5));
    assert_eq!(world.state(tick_id("h", hour(5))), Some(TaskState::Ready));
    // A task that was triggered by hand counts as well.
    run(&mut world);
    world.at(hour(5).plus_ms(MINUTE_MS * 30));
    let triggered = world.trigger("h").unwrap();
    assert_eq!(world.state(triggered), Some(TaskState::Ready));
    world.at(hour(6));
    assert_eq!(world.open(), 1);
}

#[test]
fn a_trigger_submits_at_once_even_if_paused_and_moves_no_tick() {
    let mut world = World::new();
    world.set("h", hourly()).unwrap();
    world.pause("h", true).unwrap();
    let task = world.trigger("h").unwrap();
    assert_eq!(world.state(task), Some(TaskState::Ready));
    world.now = world.now.plus_ms(1);
    assert_ne!(world.trigger("h").unwrap(), task);
    world.pause("h", false).unwrap();
    assert_eq!(world.engine.next_deadline(), Some(hour(1)));
    assert_eq!(world.trigger("x").unwrap_err().code(), "no_such_schedule");
}

#[test]
fn start_end_and_removal_bound_the_ticks() {
    let mut world = World::new();
    let mut schedule = hourly();
    (schedule.start, schedule.end) = (Some(hour(2)), Some(hour(3)));
    world.set("h", schedule).unwrap();
    assert_eq!(world.engine.next_deadline(), Some(hour(2)));
    world.at(hour(6));
    assert_eq!(world.open(), 2);
    assert_eq!(world.engine.next_deadline(), None);
    world.set("g", hourly()).unwrap();
    world.remove("g").unwrap();
    assert_eq!(world.remove("g").unwrap_err().code(), "no_such_schedule");
    let world = world.restart(1);
    assert_eq!(world.engine.next_deadline(), None);
}

#[test]
fn jitter_is_the_same_for_the_same_tick_and_spreads_schedules() {
    let mut world = World::new();
    let mut schedule = hourly();
    schedule.jitter_ms = 10 * MINUTE_MS;
    let mut dues = Vec::new();
    for name in ["a", "b", "c"] {
        world.set(name, schedule.clone()).unwrap();
        dues.push(world.engine.next_deadline().unwrap());
        world.remove(name).unwrap();
    }
    assert!(dues.iter().all(|due| *due >= hour(1) && *due <= hour(1).plus_ms(10 * MINUTE_MS)));
    assert!(dues[0] != dues[1] && dues[1] != dues[2]);
    world.set("a", schedule).unwrap();
    let mut world = world.restart(1);
    assert_eq!(world.engine.next_deadline(), Some(dues[0]), "over restarts too");
    world.at(Timestamp(dues[0].0 - 1));
    assert_eq!(world.open(), 0);
    world.at(dues[0]);
    assert_eq!(world.state(tick_id("a", hour(1))), Some(TaskState::Ready));
}

#[test]
fn a_refused_tick_is_told_until_one_works() {
    let mut world = World::new();
    let mut schedule = hourly();
    schedule.task.terms.limits = vec!["ghost".into()];
    world.set("haunted", schedule).unwrap();
    world.at(hour(1));
    let told = |world: &World| {
        let all = world.engine.core().schedules().all_refused();
        all.map(|(name, why)| format!("{name}: {why}")).collect::<Vec<_>>()
    };
    assert_eq!((world.open(), told(&world).len()), (0, 1));
    assert!(told(&world)[0].starts_with("haunted: limits names `ghost`"), "{:?}", told(&world));
    assert!(matches!(world.trigger("haunted"), Err(Error::Spec(_))), "nothing was submitted");
    let mut world = world.crash(1);
    assert_eq!(told(&world).len(), 1, "a restart does not hide it");
    let limit = Limit { concurrency: Some(1), ..Limit::default() };
    let settings = Settings { limits: [("ghost".into(), limit)].into(), ..Settings::default() };
    let settings = Box::new(settings);
    world.ask(|reply| Request::ApplySettings { settings, reply }).unwrap();
    world.at(hour(2));
    assert_eq!((world.open(), told(&world).len()), (1, 0));
}

#[test]
fn a_bad_schedule_is_refused_with_the_field_named() {
    type Spoil = Box<dyn Fn(&mut Schedule)>;
    let cases: Vec<(&str, &str, Spoil)> = vec![
        ("", "name is empty", Box::new(|_| {})),
        ("h", "cron minutes `61`: expected 0 to 59", Box::new(|s| s.cron = "61 * * * *".into())),
        (
            "h",
            "cron days of the month `30`: never comes",
            Box::new(|s| s.cron = "0 0 30 2 *".into()),
        ),
        ("h", "zone `Berlin` is not a time zone", Box::new(|s| s.zone = "Berlin".into())),
        ("h", "kind is empty", Box::new(|s| s.task.kind = "".into())),
        ("h", "priority is 9", Box::new(|s| s.task.priority = 9)),
        (
            "h",
            "end is before start",
            Box::new(|s| (s.start, s.end) = (Some(hour(2)), Some(hour(1)))),
        ),
        ("h", "jitter_ms is 3600001, at most 3600000", Box::new(|s| s.jitter_ms = 3_600_001)),
        ("h", "two ticks are only 3600000 ms apart", Box::new(|s| s.jitter_ms = 3_600_000)),
    ];
    for (name, words, spoil) in cases {
        let mut schedule = hourly();
        spoil(&mut schedule);
        let error = check(name, &schedule).unwrap_err().to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
    let mut world = World::new();
    for number in 0..1_000 {
        world.set(&format!("s{number}"), hourly()).unwrap();
    }
    assert_eq!(world.set("one-more", hourly()).unwrap_err().code(), "too_many_schedules");
    world.set("s7", hourly()).unwrap();
}
