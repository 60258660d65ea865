//! Decides which policy is best: in each scenario, and over all of them.
//!
//! In a scenario, the lowest p99 wins among those whose queues stay within bounds. Over all scenarios the rule is the
//! lowest worst ratio: a policy is as good as in the scenario in which it falls furthest behind the winner there. One
//! that is unstable anywhere cannot win.
//!
//! Errors are not in the p99, and a quick error makes a target look free. So a policy that sends a failing target
//! more than a blind one would is marked as drawn by errors, and the rule is applied with and without those.

use super::contest::{Contender, SCENARIOS, Scenario, Standing};

/// A policy is drawn by errors if the failing target gets this many times its fair share; chance alone stays below.
pub(super) const DRAWN: f64 = 1.25;

/// How one contender stands over all scenarios, with one number of balancers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rank {
    pub(super) contender: Contender,
    /// The p99 over the best, and where that is worst; none if it is unstable anywhere.
    pub(super) worst: Option<(f64, Scenario)>,
    /// Whether a target that fails gets more requests than a blind choice would give it.
    pub(super) is_drawn: bool,
}

/// The order of contenders.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ranking {
    /// In the order of the standings.
    pub(super) ranks: Vec<Rank>,
    /// The best p99 of each scenario and who has it; none if nobody is stable there.
    pub(super) winners: [Option<(Contender, f64)>; SCENARIOS],
}

impl Ranking {
    /// Ranks by the scores with this number of balancers: the first or the second.
    pub(super) fn of(standings: &[Standing], which: usize, targets: usize) -> Self {
        let stable = |standing: &Standing, scenario: usize| {
            let score = standing.scores[which][scenario];
            (standing.contender.is_fair() && score.is_stable)
                .then_some((standing.contender, score.p99))
        };
        let winners = std::array::from_fn(|scenario| {
            let all = standings.iter().filter_map(|standing| stable(standing, scenario));
            all.min_by(|a, b| a.1.total_cmp(&b.1))
        });
        let fails = Scenario::ALL.iter().position(|each| *each == Scenario::Fails);
        let fails = fails.expect("it is one of them");
        let rank = |standing: &Standing| {
            let ratio = |scenario: usize| {
                let score = standing.scores[which][scenario];
                let best = winners[scenario].filter(|_| score.is_stable)?;
                Some((score.p99 / best.1, Scenario::ALL[scenario]))
            };
            let ratios: Option<Vec<_>> = (0..SCENARIOS).map(ratio).collect();
            let worst = ratios.and_then(|all| all.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)));
            let drawn = standing.scores[which][fails].sent_to_upset * targets as f64;
            Rank { contender: standing.contender, worst, is_drawn: drawn > DRAWN }
        };
        Self { ranks: standings.iter().map(rank).collect(), winners }
    }

    /// The best over all scenarios.
    pub(super) fn best(&self) -> Option<Rank> {
        self.best_of(|_| true)
    }

    /// The best of those that a failing target does not draw.
    pub(super) fn best_wary(&self) -> Option<Rank> {
        self.best_of(|rank| !rank.is_drawn)
    }

    fn best_of(&self, may: impl Fn(&Rank) -> bool) -> Option<Rank> {
        let worst = |rank: &Rank| rank.worst.map_or(f64::INFINITY, |worst| worst.0);
        let stable = self.ranks.iter().filter(|rank| rank.worst.is_some());
        let fair = stable.filter(|rank| rank.contender.is_fair() && may(rank));
        fair.min_by(|a, b| worst(a).total_cmp(&worst(b))).copied()
    }
}

#[cfg(test)]
mod tests {
    use divvy_placement::policies::Kind;

    use super::super::contest::Score;
    use super::*;

    fn standing(contender: Contender, p99: [f64; 4], sent_to_upset: f64) -> Standing {
        let score =
            |p99: f64| Score { p99, sent_to_upset, is_stable: p99.is_finite(), ..Score::default() };
        Standing { contender, scores: [p99.map(score); 2] }
    }

    #[test]
    fn the_lowest_worst_ratio_wins_and_the_unstable_and_all_knowing_do_not() {
        let quick = Contender::Policy(Kind::LeastConnections);
        let steady = Contender::Policy(Kind::AdaptiveP2c);
        let standings = [
            standing(quick, [5.0, 8.0, 10.0, 50.0], 0.3),
            standing(steady, [10.0, 16.0, 10.0, 10.0], 0.01),
            standing(Contender::Policy(Kind::Random), [1.0, f64::INFINITY, 9.0, 9.0], 0.1),
            standing(Contender::TrueQueues, [1.0; 4], 0.1),
        ];
        let ranking = Ranking::of(&standings, 0, 10);
        assert_eq!(ranking.winners[0], Some((Contender::Policy(Kind::Random), 1.0)));
        assert_eq!(ranking.winners[1], Some((quick, 8.0)));
        let worst: Vec<_> = ranking.ranks.iter().map(|rank| rank.worst).collect();
        assert_eq!(worst[0], Some((50.0 / 9.0, Scenario::Fails)));
        assert_eq!(worst[1], Some((10.0, Scenario::Equal)));
        assert_eq!(worst[2], None);
        assert_eq!(ranking.best().map(|rank| rank.contender), Some(quick));
        assert_eq!(ranking.best_wary().map(|rank| rank.contender), Some(steady));
    }
}
