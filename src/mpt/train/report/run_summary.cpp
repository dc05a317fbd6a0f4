#include <mpt/train/report/run_summary.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace mpt {

double proposed_save_interval(parallel::checkpoint::save_costs const& saves, int devices) {
  if (saves.saves == 0) return 0;
  auto const count = static_cast<double>(saves.saves);
  double const failures =
      3600 * parallel::checkpoint::device_hours_between_failures / static_cast<double>(devices);
  return std::max(saves.seconds / count, parallel::checkpoint::best_save_interval(
                                             saves.held_up_seconds / count, failures));
}

std::string text_of_saves(run_summary const& s, int devices) {
  if (s.saves.saves == 0) return {};
  auto const count = static_cast<double>(s.saves.saves);
  auto const interval = proposed_save_interval(s.saves, devices);
  return fmt::format(
      "saves: {}, each complete after {:.2f} s, for {:.2f} s of which training stopped; with a "
      "failure "
      "every {} ({} devices that fail as Llama 3's did) a save every {} loses the least",
      s.saves.saves, s.saves.seconds / count, s.saves.held_up_seconds / count,
      console::duration(3600 * parallel::checkpoint::device_hours_between_failures / devices),
      devices, console::duration(interval));
}

void set_speed(run_summary& summary, utilisation const& peak, spent_seconds const& spent,
               std::int64_t tokens, std::int64_t padded_tokens) {
  double const seconds = spent.training;
  double const padded_tokens_per_second = static_cast<double>(padded_tokens) / seconds;
  summary.seconds = seconds;
  summary.data_wait_share = spent.waiting_for_data / seconds;
  summary.tokens_per_second = static_cast<double>(tokens) / seconds;
  summary.trained_tokens_per_second = static_cast<double>(summary.trained_tokens) / seconds;
  summary.mfu = peak.mfu(padded_tokens_per_second);
  summary.mfu_causal = peak.mfu_causal(padded_tokens_per_second);
}

batch_result result_of(train::step_result<double> const& step, std::int64_t batch,
                       training_clock const& clock) {
  auto const count = static_cast<double>(std::max<std::int64_t>(1, step.sums.tokens));
  return {.batch = batch,
          .epoch = batch / clock.batches_per_epoch,
          .ends_epoch = batch % clock.batches_per_epoch == 0,
          .loss = step.sums.loss / count,
          .accuracy = static_cast<double>(step.sums.correct) / count,
          .gradient_norm = step.gradient_norm,
          .gradient_scale = step.gradient_scale,
          .tensors = &step.tensors,
          .record = &step.record,
          .loss_tokens = count};
}

evaluation_report report_of(train::statistics<double> const& sums, std::string label,
                            std::int64_t batch, training_clock const& clock) {
  auto const count = static_cast<double>(std::max<std::int64_t>(1, sums.tokens));
  return {.label = std::move(label),
          .batch = batch,
          .epoch = batch / clock.batches_per_epoch,
          .loss = sums.loss / count,
          .accuracy = static_cast<double>(sums.correct) / count};
}

std::string note_on_saves(bool in_background, std::size_t bytes) {
  if (in_background) return "";
  return fmt::format(
      "note: training stops while a checkpoint is written: there is no memory for a copy of it, {} "
      "per rank",
      console::bytes(static_cast<double>(bytes)));
}

}  // namespace mpt
