#include <mpt/train/batch_guard.hpp>

#include <parallel/core/failures.hpp>

namespace mpt {

batch_guard::batch_guard(run_config const& run) : run_(run) {
  if (run.spike_check) spikes_.emplace(*run.spike_check);
}

parallel::train::step_limits batch_guard::limits() const {
  return spikes_ ? spikes_->limits() : parallel::train::step_limits{};
}

parallel::position batch_guard::position_after(std::int64_t finished) const {
  return {.seed = run_.seed,
          .step = static_cast<std::uint32_t>(finished),
          .updates = static_cast<std::uint32_t>(finished - skipped_.count())};
}

void batch_guard::record_update(batch_result const& r) {
  if (spikes_) spikes_->add(r.loss, r.gradient_norm);
}

bool batch_guard::must_roll_back(parallel::train::step_outcome outcome, batch_result const& r) {
  bool const is_spike = outcome == parallel::train::step_outcome::above_limit;
  reason_ = is_spike ? spikes_->describe(r.loss, r.gradient_norm)
                     : "the loss or the gradient is not finite";
  auto const policy = is_spike ? run_.spike_check->on_spike : run_.on_not_finite;
  if (policy == bad_batch_policy::stop)
    parallel::fail<parallel::diverged>(
        "batch ", r.batch, ": ", reason_,
        "; nothing was updated: lower the learning rate, resume from an earlier checkpoint, or "
        "set ",
        is_spike ? "spike_check.on_spike" : "on_not_finite", " to skip or roll_back");
  return policy == bad_batch_policy::roll_back;
}

found_checkpoint batch_guard::rollback_checkpoint(std::filesystem::path const& folder,
                                                  std::int64_t batch) const {
  if (folder.empty())
    parallel::fail<parallel::diverged>("batch ", batch, ": ", reason_,
                                       ", and there is no checkpoint yet to roll back to; save "
                                       "earlier, or skip such batches");
  return {folder, false, {}, parallel::checkpoint::if_damaged::set_aside};
}

std::string batch_guard::skip(std::int64_t first, std::int64_t last) {
  return skipped_.add(first, last, reason_);
}

void batch_guard::save(run_state& state) const {
  state.skipped = skipped_.state();
  if (spikes_) state.spikes = spikes_->state();
}

void batch_guard::restore(run_state const& saved) {
  skipped_.restore(saved.skipped);
  roll_back(saved);
}

void batch_guard::roll_back(run_state const& saved) {
  if (spikes_) spikes_->restore(saved.spikes);
}

}  // namespace mpt
