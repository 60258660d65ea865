//! Scenarios of the autoscaler, driven through its public interface only.

mod each_policy_stands_alone;
mod fleets_keep_their_bounds;
mod forecasts_earn_their_trust;
mod money_is_counted;
mod nothing_is_ever_out_of_range;
mod play;
