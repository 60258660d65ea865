//! Whether the successes of a kind pay for one more retry.
//!
//! A kind with a retry budget may retry as often as a share of its recent successes and a floor per second allow. When
//! nearly everything fails, for instance because a service behind it is down, its retries stop multiplying the load:
//! each still comes, but only after the longest wait of its policy. Lost workers are not asked to pay, because that
//! is rarely the doing of the kind. Kinds without a setting have no budget and cost nothing here.

use std::collections::BTreeMap;
use std::time::Duration;

use divvy_guard::budget::{Budget, Settings as Rule};
use divvy_types::{Name, Settings, Timestamp};

/// The budgets of kinds that have one. At most as many as the settings name.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    kinds: BTreeMap<Name, Budget>,
}

impl Budgets {
    /// A task of this kind was done.
    pub(crate) fn pay(&mut self, now: Timestamp, kind: &Name, settings: &Settings) {
        if let Some(budget) = self.of(kind, settings) {
            budget.success(since_epoch(now));
        }
    }

    /// Takes one retry out of the budget; false if it is spent.
    pub(crate) fn spend(&mut self, now: Timestamp, kind: &Name, settings: &Settings) -> bool {
        self.of(kind, settings).is_none_or(|budget| budget.try_spend(since_epoch(now)))
    }

    /// The budget that the settings of this moment give the kind. A change of its terms starts it anew.
    fn of(&mut self, kind: &Name, settings: &Settings) -> Option<&Budget> {
        if settings.kinds.is_empty() {
            return None;
        }
        let set = settings.kinds.get(kind)?.retry_budget?;
        let rule = Rule { share: set.share, floor_per_second: set.per_second, ..Rule::default() };
        if self.kinds.get(kind).is_none_or(|budget| *budget.settings() != rule) {
            self.kinds.retain(|kind, _| settings.kinds.contains_key(kind));
            self.kinds.insert(kind.clone(), Budget::new(rule).ok()?);
        }
        self.kinds.get(kind)
    }
}

fn since_epoch(now: Timestamp) -> Duration {
    Duration::from_micros(now.0)
}

#[cfg(test)]
mod tests {
    use divvy_types::settings::{KindSettings, RetryBudget};

    use super::*;

    fn settings(share: f64, per_second: f64) -> Settings {
        let retry_budget = Some(RetryBudget { share, per_second });
        let kind = KindSettings { retry_budget, ..KindSettings::default() };
        Settings { kinds: [(Name::from("mail"), kind)].into(), ..Settings::default() }
    }

    #[test]
    fn successes_pay_and_kinds_without_a_budget_are_free() {
        let (mut budgets, settings) = (Budgets::default(), settings(0.5, 0.0));
        let (now, mail) = (Timestamp(1_700_000_000_000_000), Name::from("mail"));
        assert!(!budgets.spend(now, &mail, &settings));
        (0..4).for_each(|_| budgets.pay(now, &mail, &settings));
        let spent = [(); 3].map(|()| budgets.spend(now, &mail, &settings));
        assert_eq!(spent, [true, true, false]);
        assert!((0..1_000).all(|_| budgets.spend(now, &"other".into(), &settings)));
        assert!(!budgets.spend(now.plus_ms(60_000), &mail, &settings), "old successes do not pay");
    }

    #[test]
    fn a_changed_setting_starts_anew_and_a_removed_kind_is_forgotten() {
        let (mut budgets, now) = (Budgets::default(), Timestamp(1_700_000_000_000_000));
        let mail = Name::from("mail");
        assert!(!budgets.spend(now, &mail, &settings(0.5, 0.0)));
        assert!(budgets.spend(now, &mail, &settings(0.5, 1.0)));
        assert!(budgets.spend(now, &mail, &Settings::default()));
        let mut others = settings(0.1, 1.0);
        others.kinds = [(Name::from("other"), others.kinds[&mail].clone())].into();
        assert!(budgets.spend(now, &"other".into(), &others));
        assert_eq!(budgets.kinds.len(), 1);
    }
}
