#include <mpt/train/report/reporter.hpp>

#include <cmath>
#include <exception>
#include <filesystem>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include <mpt/console/format.hpp>

namespace mpt {

void batch_record::add_pace(run_pace const& pace) {
  auto const& window = pace.window();
  batches_per_second = window.batches_per_second();
  padded_tokens_per_second = window.padded_tokens_per_second();
  tokens_per_second = window.tokens_per_second();
  trained_tokens_per_second = window.trained_tokens_per_second();
  data_wait_share = window.data_wait_share();
  seconds = pace.training_seconds();
  seconds_without_evaluation = pace.seconds_without_evaluation();
  evaluation_seconds = pace.evaluation_seconds();
  remaining_seconds = pace.remaining_seconds(total_batches - batch);
}

reporter::reporter(data_config const& data, checkpoint_config const& checkpoint,
                   callbacks_config const& callbacks, output_config const& output, int ranks,
                   std::int64_t first_batch, tracker_opener const& open_trackers,
                   std::int64_t total_batches)
    : shows_bar_(output.progress_bar),
      logs_to_console_(output.log_to_console),
      log_interval_(output.console_log_interval),
      ranks_(ranks),
      rows_(data.global_train_batch_size),
      time_unit_(callbacks.speed_time_unit),
      remaining_unit_(callbacks.remaining_time_unit),
      file_(output.metrics_file),
      journal_(checkpoint.save_folder),
      has_optimizer_monitor_(callbacks.optimizer_monitor_interval > 0),
      is_finetuning_(data.train_loader.finetuning.has_value()),
      bar_(is_finetuning_ ? "finetune" : "pretrain") {
  auto const& loggers = output.loggers;
  if (auto const& folder = loggers.tensorboard) events_.emplace(*folder, first_batch);
  if (loggers.csv) table_.emplace(*loggers.csv);
  if (open_trackers) trackers_ = open_trackers(first_batch);
  journal_.add("train", {{"batches", first_batch - 1}, {"total_batches", total_batches}});
  show_notes();
}

namespace {

/// Prints a line without disturbing the bar; trackers have it in the run's console.
void say(console::progress& bar, std::vector<std::unique_ptr<tracker>> const& trackers,
         std::string const& text, std::int64_t batch) {
  bar.note(text);
  for (auto const& one : trackers) one->log(batch, {{"console", text}});
}

}  // namespace

reporter::~reporter() {
  try {
    for (auto const& one : trackers_) one->fail();
    show_notes();
  } catch (std::exception const&) {  // an earlier error is on its way to the user
  }
}

void reporter::note(std::string const& text, std::int64_t batch) {
  say(bar_, trackers_, text, batch);
  journal_.add("note", {{"batch", batch}, {"text", text}});
}

void reporter::print_evaluation(std::string const& text, std::int64_t batch) {
  say(bar_, trackers_, text, batch);
  journal_.add("line", {{"batch", batch}, {"text", text}});
}

void reporter::batch(batch_record const& r, training_clock const& clock,
                     run_control const& control) {
  double const mfu = r.peak.mfu(r.padded_tokens_per_second);
  auto record = numbers_of(r, clock);
  if (is_finetuning_) {
    record["throughput/trained_tokens_per_sec"] = r.trained_tokens_per_second;
    record["throughput/padding_share"] =
        r.padded_tokens_per_second > 0 ? 1 - r.tokens_per_second / r.padded_tokens_per_second : 0.0;
  }
  for (auto const& [name, rate] : r.learning_rates) record["lr-" + name] = rate;
  for (auto const& [name, value] : r.device) record[name] = value;
  for (auto const& [name, value] : control.numbers()) record[name] = value;
  for (auto const& [name, text] : control.texts()) {
    record[name] = text;
    if (events_) events_->text(name, text, r.batch);
  }
  write(record, r.batch);
  double const progress = static_cast<double>(r.batch) / static_cast<double>(r.total_batches);
  std::string const wait_text =  // shown only when the run waits for data
      r.data_wait_share < 0.02
          ? ""
          : fmt::format("  waits {:.0f} % for data ({:.1f} samples/s)", 100 * r.data_wait_share,
                        r.batches_per_second * static_cast<double>(rows_));
  std::string const trained_text =
      is_finetuning_
          ? fmt::format("  {} trained tok/s", console::count(r.trained_tokens_per_second))
          : "";
  std::string const text =
      fmt::format("{}/{} ba  loss {:.3f}  left {}  {} tok/s{}{}  MFU {:.1f}%  {}", r.batch,
                  r.total_batches, r.loss, console::duration(r.remaining_seconds.value_or(-1)),
                  console::count(r.tokens_per_second), trained_text, wait_text, 100 * mfu,
                  console::bytes(r.memory_bytes));
  if (shows_bar_)
    bar_.update(progress, text);
  else if (logs_to_console_ && is_due(log_interval_, r.batch, clock))
    say(bar_, trackers_,
        fmt::format("{}  lr {:.2e}  grad {:.3f}", text, r.learning_rates.at(0).second,
                    r.gradient_norm),
        r.batch);
}

void reporter::evaluation(std::string const& label, std::int64_t batch, double loss,
                          double accuracy, std::int64_t tokens) {
  std::string const prefix = "metrics/eval/" + (label.empty() ? "" : label + "/");
  write({{"time/batch", batch},
         {prefix + "LanguageCrossEntropy", loss},
         {prefix + "LanguagePerplexity", std::exp(loss)},
         {prefix + "TokenAccuracy", accuracy},
         {prefix + "tokens", tokens}},
        batch);
  print_evaluation(
      fmt::format("eval{}{} at {} ba: cross entropy {:.4f}, perplexity {:.2f}, accuracy "
                  "{:.1f} %, {} tokens",
                  label.empty() ? "" : " ", label, batch, loss, std::exp(loss), 100 * accuracy,
                  console::grouped(tokens)),
      batch);
}

void reporter::tasks(task_scores const& scores, std::int64_t batch) {
  nlohmann::ordered_json record{{"time/batch", batch}};
  for (auto const& [name, value] : scores.metrics) record[name] = value;
  write(record, batch);
  for (auto const& line : scores.lines) print_evaluation(line, batch);
}

void reporter::memory(std::vector<double> const& by_rank, std::int64_t batch) {
  if (by_rank.empty()) return;
  auto bytes = nlohmann::ordered_json::array();  // whole numbers are shorter
  for (double const peak : by_rank) bytes.push_back(static_cast<std::int64_t>(peak));
  journal_.add("memory", {{"batch", batch}, {"device_bytes", std::move(bytes)}});
}

void reporter::hurry() {
  for (auto const& one : trackers_) one->hurry();
}

void reporter::finish() {
  bar_.finish();
  for (auto const& one : trackers_) one->finish();
  show_notes();
  file_.finish();
  if (table_) table_->finish();
  if (journal_.lost() > 0)
    parallel::fail<parallel::storage_error>(
        "the journal ", journal_name, " in save_folder: ", journal_.lost(),
        " lines were lost: they could not be written, as on a full disk");
  if (events_ && events_->lost() > 0)
    parallel::fail<parallel::storage_error>(
        "the event file ", events_->path().string(), ": ", events_->lost(),
        " records were lost: they could not be written, as on a full disk");
}

nlohmann::ordered_json reporter::numbers_of(batch_record const& r,
                                            training_clock const& clock) const {
  auto const in_epoch = r.batch - r.epoch * clock.batches_per_epoch;
  double const samples = r.batches_per_second * static_cast<double>(rows_);
  double const flops = r.padded_tokens_per_second * r.peak.flops_per_token;
  double const train = r.seconds_without_evaluation / time_unit_.seconds;
  double const validation = r.evaluation_seconds / time_unit_.seconds;
  nlohmann::ordered_json out{
      {"time/batch", r.batch},           {"time/epoch", r.epoch},
      {"time/sample", r.batch * rows_},  {"time/token", r.tokens},
      {"time/batch_in_epoch", in_epoch}, {"time/sample_in_epoch", in_epoch * rows_}};
  if (r.epoch_tokens >= 0) out["time/token_in_epoch"] = r.epoch_tokens;
  out["time/train"] = train;
  out["time/val"] = validation;
  out["time/total"] = train + validation;
  if (r.remaining_seconds) {
    out["time/remaining_estimate"] = *r.remaining_seconds / remaining_unit_.seconds;
    out["time/remaining_estimate_unit"] = remaining_unit_.name;
  }
  out["time/train_seconds"] = r.seconds;
  out["time/data_wait_share"] = r.data_wait_share;
  out["time/checkpoint_blocked"] = r.saving_seconds;
  out["loss/train/total"] = r.loss;
  out["metrics/train/LanguageCrossEntropy"] = r.loss;
  out["metrics/train/LanguagePerplexity"] = std::exp(r.loss);
  out["metrics/train/TokenAccuracy"] = r.accuracy;
  out["l2_norm/grad/before_clipping"] = r.gradient_norm;
  // optimizer_monitor reports this norm after clipping, and only for its batches
  if (!has_optimizer_monitor_) out["l2_norm/grad/global"] = r.gradient_norm;
  out["trainer/device_train_microbatch_size"] = r.microbatch;
  for (auto const& [name, rate] : {std::pair{"batches_per_sec", r.batches_per_second},
                                   {"samples_per_sec", samples},
                                   {"tokens_per_sec", r.tokens_per_second},
                                   {"flops_per_sec", flops}}) {
    out[fmt::format("throughput/{}", name)] = rate;
    out[fmt::format("throughput/device/{}", name)] = rate / ranks_;
  }
  out["throughput/device/mfu"] = r.peak.mfu(r.padded_tokens_per_second);
  out["throughput/device/hfu"] = r.peak.hfu(r.padded_tokens_per_second);
  out["throughput/device/mfu_causal"] = r.peak.mfu_causal(r.padded_tokens_per_second);
  out["memory/peak_resident_gb"] = peak_memory_bytes() / 1e9;
  return out;
}

void reporter::write(nlohmann::ordered_json const& record, std::int64_t batch) {
  file_.write(record);
  if (table_) table_->add(record);
  for (auto const& one : trackers_) one->log(batch, record);
  show_notes();
  if (!events_) return;
  for (auto const& [name, value] : record.items())
    if (value.is_number()) events_->number(name, value.get<double>(), batch);
}

void reporter::show_notes() {
  if (table_)
    for (auto const& text : table_->take_notes()) bar_.note(text);
  for (auto const& one : trackers_)
    for (auto const& text : one->take_notes()) bar_.note(text);
}

}  // namespace mpt
