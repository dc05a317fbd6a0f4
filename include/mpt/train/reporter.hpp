// reporter: what a run says, on the console and in its metrics file. Rank 0 has one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <mpt/callbacks/callback.hpp>
#include <mpt/config/train.hpp>
#include <mpt/console/format.hpp>
#include <mpt/console/progress.hpp>
#include <mpt/console/say.hpp>
#include <mpt/log/event_file.hpp>
#include <mpt/train/metrics.hpp>
#include <mpt/train/run_tasks.hpp>

namespace mpt {

/// One finished batch.
struct batch_record {
  std::int64_t batch = 0;  // finished batches, this one included
  std::int64_t total_batches = 0;
  std::int64_t epoch = 0;
  std::int64_t tokens = 0;  // of the run so far
  double loss = 0;          // mean over the batch's loss tokens
  double accuracy = 0;
  double gradient_norm = 0;
  std::vector<std::pair<std::string, double>> learning_rates;  // of optimizer groups, by name
  double places_per_second = 0;                                // of tokens or padding
  double tokens_per_second = 0;
  double trained_tokens_per_second = 0;  // with a label
  double samples_per_second = 0;
  // of the last batches' seconds, on rank 0: a maximum would be one more exchange a batch
  double data_wait_share = 0;
  double saving_seconds = 0;                                // that saving held training up
  double seconds = 0;                                       // since the program started training
  double remaining_seconds = 0;                             // estimated
  std::vector<std::pair<std::string, double>> device = {};  // what the device tells of itself

  /// Adds how fast the last batches, of so many sequences each, went.
  void add_speed(speed_window const& window, std::int64_t sequences) {
    double const batches = window.batches_per_second();
    places_per_second = window.places_per_second();
    tokens_per_second = window.tokens_per_second();
    trained_tokens_per_second = window.trained_tokens_per_second();
    samples_per_second = batches * static_cast<double>(sequences);
    data_wait_share = window.data_wait_share();
    remaining_seconds = batches > 0 ? static_cast<double>(total_batches - batch) / batches : -1.0;
  }
};

class reporter {
 public:
  /// `first_batch`: the first that will be reported, when a run goes on; else 0.
  reporter(train_config const& config, int ranks, utilisation peak, std::int64_t first_batch)
      : bar_mode_(config.logging.progress_bar),
        console_(config.logging.log_to_console),
        every_(config.logging.console_log_interval),
        ranks_(ranks),
        peak_(peak),
        file_(config.logging.metrics_file),
        finetunes_(config.train_loader.finetuning.has_value()),
        bar_(finetunes_ ? "finetune" : "pretrain") {
    if (auto const& folder = config.logging.tensorboard)
      events_.emplace(std::filesystem::path(*folder) / config.run_name, first_batch);
  }

  void note(std::string const& text) { bar_.note(text); }

  /// `control` has what callbacks add.
  void batch(batch_record const& r, training_clock const& clock, run_control const& control) {
    double const mfu = peak_.mfu(r.places_per_second);
    double const memory = peak_memory_bytes();
    nlohmann::ordered_json record{
        {"time/batch", r.batch},
        {"time/epoch", r.epoch},
        {"time/token", r.tokens},
        {"time/train_seconds", r.seconds},
        {"time/remaining_estimate", r.remaining_seconds},
        {"loss/train/total", r.loss},
        {"metrics/train/LanguagePerplexity", std::exp(r.loss)},
        {"metrics/train/TokenAccuracy", r.accuracy},
        {"l2_norm/grad/global", r.gradient_norm},
        {"throughput/tokens_per_sec", r.tokens_per_second},
        {"throughput/samples_per_sec", r.samples_per_second},
        {"time/data_wait_share", r.data_wait_share},
        {"time/checkpoint_blocked", r.saving_seconds},
        {"throughput/device/tokens_per_sec", r.tokens_per_second / ranks_},
        {"throughput/device/mfu", mfu},
        {"throughput/device/hfu", peak_.hfu(r.places_per_second)},
        {"throughput/device/mfu_causal", peak_.mfu_causal(r.places_per_second)},
        {"memory/peak_resident_gb", memory / 1e9}};
    if (finetunes_) {
      record["throughput/trained_tokens_per_sec"] = r.trained_tokens_per_second;
      record["throughput/padding_share"] =
          r.places_per_second > 0 ? 1 - r.tokens_per_second / r.places_per_second : 0.0;
    }
    for (auto const& [name, rate] : r.learning_rates) record["lr-" + name] = rate;
    for (auto const& [name, value] : r.device) record[name] = value;
    for (auto const& [name, value] : control.numbers()) record[name] = value;
    for (auto const& [name, text] : control.texts()) {
      record[name] = text;
      if (events_) events_->text(name, text, r.batch);
    }
    write(record, r.batch);
    double const done = static_cast<double>(r.batch) / static_cast<double>(r.total_batches);
    std::string const held =  // said only when data hold the run back
        r.data_wait_share < 0.02 ? ""
                                 : fmt::format("waits {:.0f} % for data ({:.1f} samples/s)  ",
                                               100 * r.data_wait_share, r.samples_per_second);
    std::string const trained =
        finetunes_ ? fmt::format(" ({} trained)", console::count(r.trained_tokens_per_second)) : "";
    std::string const text = fmt::format(
        "{}/{} ba  loss {:.3f}  {} tok/s{}  MFU {:.1f}%  {}  {}left {}", r.batch, r.total_batches,
        r.loss, console::count(r.tokens_per_second), trained, 100 * mfu, console::bytes(memory),
        held, console::duration(r.remaining_seconds));
    if (bar_mode_)
      bar_.update(done, text);
    else if (console_ && is_due(every_, r.batch, clock))
      bar_.note(fmt::format("{}  lr {:.2e}  grad {:.3f}", text, r.learning_rates.at(0).second,
                            r.gradient_norm));
  }

  void evaluation(std::string const& label, std::int64_t batch, double loss, double accuracy,
                  std::int64_t tokens) {
    std::string const prefix = "metrics/eval/" + (label.empty() ? "" : label + "/");
    write({{"time/batch", batch},
           {prefix + "LanguageCrossEntropy", loss},
           {prefix + "LanguagePerplexity", std::exp(loss)},
           {prefix + "TokenAccuracy", accuracy},
           {prefix + "tokens", tokens}},
          batch);
    bar_.note(
        fmt::format("eval{}{} at {} ba: cross entropy {:.4f}, perplexity {:.2f}, accuracy "
                    "{:.1f} %, {} tokens",
                    label.empty() ? "" : " ", label, batch, loss, std::exp(loss), 100 * accuracy,
                    console::grouped(tokens)));
  }

  void tasks(task_scores const& scores, std::int64_t batch) {
    nlohmann::ordered_json record{{"time/batch", batch}};
    for (auto const& [name, value] : scores.metrics) record[name] = value;
    write(record, batch);
    for (auto const& line : scores.lines) bar_.note(line);
  }

  /// Throws when metrics were lost.
  void finish() {
    bar_.finish();
    if (events_ && events_->lost() > 0)
      console::say("note: {}: {} records were lost, which could not be written\n",
                   events_->path().string(), events_->lost());
    file_.finish();
  }

 private:
  /// One line of the metrics file, and its numbers by step for TensorBoard.
  void write(nlohmann::ordered_json const& record, std::int64_t batch) {
    file_.write(record);
    if (!events_) return;
    for (auto const& [name, value] : record.items())
      if (value.is_number()) events_->number(name, value.get<double>(), batch);
  }

  bool bar_mode_;
  bool console_;
  time_value every_;
  int ranks_;
  utilisation peak_;
  metrics_file file_;
  std::optional<event_file> events_;
  bool finetunes_;
  console::progress bar_;
};

}  // namespace mpt
