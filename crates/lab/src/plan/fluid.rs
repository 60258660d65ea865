//! Decides where a search begins: how many slots would do if work were water.
//!
//! Every item asks for its work evenly over the time that its longest chain takes. What all ask for beyond what there is
//! piles up, and whoever would be done while the pile is high is done so much later. That is quick, and it knows the
//! busy hours of a day, which Erlang's formula does not. It leaves out chance within a minute, stages, boots and the
//! order of the scheduler, so it is where the simulation begins to look, and nothing of it is told.

use super::demand::Demand;
use super::input::Plan;
use super::play::late_max;
use crate::sim::cluster::GivenTask;

/// Steps in which the time of the goal is cut.
const STEPS: f64 = 30.0;
/// The shortest and the longest step in seconds.
const STEP_SEC: (f64, f64) = (1.0, 300.0);
/// How near the fewest slots are found.
const NEAR: f64 = 0.002;

/// What is asked for over time.
pub(super) struct Flow {
    step: f64,
    /// Slots that are asked for in each step.
    asked: Vec<f64>,
    /// The step in which each item would be done if none waited, and how long it takes then.
    items: Vec<(usize, f64)>,
    within: f64,
    /// Items that may be late.
    late_max: usize,
}

impl Flow {
    /// What comes, on slots of this speed.
    pub(super) fn new(plan: &Plan, demand: &Demand, speed: f64) -> Self {
        let within = plan.goal.within_sec;
        let step = (within / STEPS).clamp(STEP_SEC.0, STEP_SEC.1);
        let chains: Vec<f64> = demand.chains().into_iter().map(|chain| chain / speed).collect();
        let longest = chains.iter().copied().fold(0.0, f64::max);
        let end = ((demand.horizon.as_secs_f64() + longest) / step) as usize + 1;
        let mut asked = vec![0.0; end];
        let mut items = Vec::with_capacity(chains.len());
        for (item, chain) in demand.items.iter().zip(chains) {
            let in_slot = |task: &&GivenTask| !plan.stages[task.sort % plan.stages.len()].light;
            let work: f64 = demand.given.tasks[item.tasks.0..item.tasks.1]
                .iter()
                .filter(in_slot)
                .map(|task| task.run.as_secs_f64() / speed)
                .sum();
            let first = (item.at.as_secs_f64() / step) as usize;
            let last = (((item.at.as_secs_f64() + chain) / step) as usize).min(end - 1);
            let each = work / step / (last - first + 1) as f64;
            asked[first..=last].iter_mut().for_each(|asked| *asked += each);
            items.push((last, chain));
        }
        let late_max = late_max(plan, items.len());
        Self { step, asked, items, within, late_max }
    }

    /// The fewest slots with which few enough are late; more than are ever asked for at once if none are.
    pub(super) fn least_slots(&self) -> f64 {
        let mean = self.asked.iter().sum::<f64>() / self.asked.len() as f64;
        let (mut few, mut enough) = (mean / 2.0, self.asked.iter().copied().fold(mean, f64::max));
        while enough - few > NEAR * enough {
            let middle = (few + enough) / 2.0;
            match self.late(middle) <= self.late_max {
                true => enough = middle,
                false => few = middle,
            }
        }
        enough
    }

    /// Items that are late with so many slots.
    fn late(&self, slots: f64) -> usize {
        let mut piled = 0.0;
        let waits: Vec<f64> = self
            .asked
            .iter()
            .map(|asked| {
                piled = f64::max(0.0, piled + (asked - slots) * self.step);
                piled / slots
            })
            .collect();
        self.items.iter().filter(|(done, chain)| chain + waits[*done] > self.within).count()
    }
}

#[cfg(test)]
mod tests {
    use super::super::demand;
    use super::super::input::PerHour;
    use super::super::tests::one_stage;
    use super::*;

    #[test]
    fn an_even_load_needs_what_it_asks_for() {
        let mut plan = one_stage(360.0, 49.0);
        plan.arrivals.evenly = true;
        let flow = Flow::new(&plan, &demand::draw(&plan, 1), 1.0);
        assert!((flow.least_slots() - 4.9).abs() < 0.15, "{}", flow.least_slots());
        let fast = Flow::new(&plan, &demand::draw(&plan, 1), 2.0);
        assert!((fast.least_slots() - 2.45).abs() < 0.15, "{}", fast.least_slots());
    }

    #[test]
    fn a_rush_that_may_wait_needs_less_than_its_peak() {
        let mut plan = one_stage(0.0, 100.0);
        let mut hours = vec![36.0; 24];
        hours[12] = 360.0;
        plan.arrivals.per_hour = Some(PerHour::OfDay(hours));
        let slots = |within: f64| {
            let mut plan = plan.clone();
            plan.goal.within_sec = within;
            Flow::new(&plan, &demand::draw(&plan, 1), 1.0).least_slots()
        };
        let (soon, late) = (slots(150.0), slots(3_600.0));
        // Ten slots at noon, one else; 29 % come at noon.
        assert!(soon > 8.5 && late < 7.0 && late > 1.0, "{soon}, {late}");
    }
}
