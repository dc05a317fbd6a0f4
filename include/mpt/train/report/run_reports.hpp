// run_reports: reports how a run goes: its pace, the peak of its devices, slow ranks, memory; rank
// 0 writes the reports.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <mpt/train/report/reporter.hpp>
#include <mpt/train/report/run_pace.hpp>
#include <mpt/train/report/slow_rank.hpp>
#include <mpt/train/run_context.hpp>
#include <mpt/train/setup/matmul_rate.hpp>
#include <mpt/train/setup/parameter_groups.hpp>
#include <mpt/train/setup/run_plan.hpp>

namespace mpt {

template <class Device>
class run_reports {
 public:
  /// `run` and `device` must outlive it; `exchange_seconds`: as in run_hooks; `work`: as for
  /// slow_rank_watch.
  run_reports(run_context& run, Device const& device, run_plan const& plan,
              std::function<double()> exchange_seconds, int work)
      : run_(run),
        device_(device),
        microbatch_(plan.split.microbatch),
        slow_(std::move(exchange_seconds), work),
        pace_(run.config.callbacks),
        utilisation_(utilisation_of(run.config.model, run.config.data, plan, 0)) {}

  [[nodiscard]] run_pace& pace() { return pace_; }
  /// Where rank 0 reports; empty on other ranks, and before open().
  [[nodiscard]] std::optional<reporter>& report() { return report_; }

  /// Watches the peak of products of T. Collective.
  template <class T>
  void watch_devices(typename Device::stream_type& compute) {
    peak_.emplace(watch_peak<T>(device_, compute, run_.config.callbacks.gpu_flops_available,
                                run_.comm, run_.host));
  }
  void open(tracker_opener const& open_trackers) {
    if (run_.comm.rank() == 0)
      report_.emplace(run_.config.data, run_.config.checkpoint, run_.config.callbacks,
                      run_.config.output, run_.comm.size(), run_.batch + 1, open_trackers,
                      total_batches(run_.clock));
  }
  void say(std::string const& text) {
    if (report_ && !text.empty()) report_->note(text, run_.batch);
  }

  /// Adds numbers to the metrics of the next batch that is reported.
  void add(std::vector<std::pair<std::string, double>> const& numbers) {
    loads_.insert(loads_.end(), numbers.begin(), numbers.end());
  }

  /// Trains a batch by calling train(), and tells memory and slow ranks. Collective.
  auto time_batch(auto const& train) {
    auto result = slow_.time_batch(train);
    auto const ranks = slow_.look(run_.comm, run_.host, peak_device_bytes(device_), [&] {
      auto out = load_.read();
      if constexpr (requires { device_.readings(); })
        for (auto const& [name, value] : device_.readings()) out.emplace_back(name, value);
      return out;
    });
    say(ranks.note);
    if (!report_) return result;
    report_->memory(ranks.device_bytes, run_.batch);
    for (auto const& [name, value] : ranks.loads) loads_.emplace_back("system/" + name, value);
    return result;
  }

  /// Reports the batch just trained.
  void after_update(batch_result const& r, double saving_seconds) {
    if (!report_) return;
    say(peak_->observe(flops_per_second()));
    utilisation_.peak_flops = peak_->flops();
    auto const factor =
        learning_rate_multiplier(run_.config.optimizer.scheduler, run_.batch - 1, run_.clock);
    batch_record record{.batch = run_.batch,
                        .total_batches = total_batches(run_.clock),
                        .epoch = (run_.batch - 1) / run_.clock.batches_per_epoch,
                        .tokens = pace_.tokens_of_run(),
                        .epoch_tokens = pace_.tokens_of_epoch(),
                        .loss = r.loss,
                        .accuracy = r.accuracy,
                        .gradient_norm = r.gradient_norm,
                        .learning_rates = learning_rates(run_.config.optimizer, factor),
                        .peak = utilisation_,
                        .microbatch = microbatch_,
                        .saving_seconds = saving_seconds,
                        .memory_bytes = parallel::host_reaches<Device> ? peak_memory_bytes()
                                                                       : peak_device_bytes(device_),
                        .device = readings_of(device_)};
    for (auto& one : std::exchange(loads_, {})) record.device.push_back(std::move(one));
    record.add_pace(pace_);
    report_->batch(record, run_.clock, run_.control);
  }

  /// Excludes from training the time since a batch's training ended. Collective.
  void begin_pause() { pause_begin_ = std::chrono::steady_clock::now(); }
  void end_pause() {
    peak_->update(pace_.batches(), pace_.training_seconds(), flops_per_second(), run_.comm,
                  run_.host);
    pace_.skip_since(pause_begin_);
  }

  /// Fills in the summary at the end of the run. Collective.
  void finish() {
    auto& summary = run_.summary;
    peak_->finish(pace_.training_seconds(),
                  pace_.mean_padded_tokens_per_second() * utilisation_.flops_per_token, run_.comm,
                  run_.host);
    summary.device_memory_by_rank =
        values_by_rank(peak_device_bytes(device_), run_.comm, run_.host);
    summary.device_memory_bytes = std::ranges::max(summary.device_memory_by_rank);
    if (report_) report_->memory(summary.device_memory_by_rank, run_.batch);
    summary.batches = run_.batch;
    pace_.summarize(summary, utilisation_, *peak_, run_.config.data.global_train_batch_size);
    if (report_ && summary.stop_asked) report_->hurry();
    if (report_) report_->finish();  // last, as no rank waits for rank 0 while a tracker is slow
  }

 private:
  [[nodiscard]] double flops_per_second() const {  // rate of the last batches
    return pace_.window().padded_tokens_per_second() * utilisation_.flops_per_token;
  }

  run_context& run_;
  Device const& device_;
  std::int64_t microbatch_;  // sequences
  std::optional<reporter> report_;
  slow_rank_watch slow_;
  system_load load_;
  named_numbers loads_;  // of the nodes, until a batch is reported
  run_pace pace_;
  std::optional<watched_peak> peak_;
  utilisation utilisation_;
  std::chrono::steady_clock::time_point pause_begin_;  // the end of the batch's training
};

}  // namespace mpt
