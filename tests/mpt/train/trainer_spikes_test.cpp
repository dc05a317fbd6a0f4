// Runs with one batch whose loss is a spike among equal batches: the spike updates nothing in any
// layout, and a run that is resumed at any batch handles the spike in the same way.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/checkpoints.hpp>
#include <parallel/checkpoint/reader.hpp>
#include <parallel/core/failures.hpp>

#include "mpt/train/tiny_run.hpp"

namespace trainer_spikes_test {
namespace {

using namespace tiny_run;
using policy = mpt::bad_batch_policy;

constexpr std::int64_t spike = 15;  // the first batch of random tokens, from 1

/// Run files with batches of the same six sequences, except `spikes` batches of random tokens.
struct spiked_files : run_files {
  explicit spiked_files(std::int64_t spikes = 1, std::int32_t batches = 27) {
    std::vector<std::vector<std::int32_t>> rows;
    std::uint32_t random = 1;
    for (std::int32_t batch = 1; batch <= batches; ++batch)
      for (std::int32_t sequence = 0; sequence < 6; ++sequence) {
        auto& row = rows.emplace_back();
        for (std::int32_t position = 0; position < length; ++position) {
          random = random * 1664525U + 1013904223U;
          bool const bad = batch >= spike && batch < spike + spikes;
          row.push_back(bad ? static_cast<std::int32_t>(random >> 16) % vocabulary
                            : (sequence * 5 + position * (1 + sequence % 2)) % vocabulary);
        }
      }
    test::write_token_set(folder / "spiked", rows);
  }

  /// A run that saves every four batches into `name`.
  [[nodiscard]] train_config run(std::string const& name, double batches, policy on_spike) const {
    auto config = this->config(batches);
    config.data.train_loader.streams = {{.local = folder / "spiked"}};
    config.data.train_loader.shuffle = false;
    config.model.n_layers = 4;
    config.model.vocab_size = 24;
    config.run.spike_check = {on_spike, 6, 8};
    config.checkpoint.save_folder = folder / name;
    config.checkpoint.save_interval = {4, time_unit::batch};
    config.checkpoint.autoresume = true;
    config.output.metrics_file = folder / (name + ".jsonl");
    return config;
  }
};

/// The run's state in a checkpoint.
nlohmann::json state_of(fs::path const& checkpoint) {
  return parallel::checkpoint::checkpoint_reader(checkpoint).state();
}

fs::path saved_at(train_config const& config, int batch) {
  for (auto const& entry : fs::directory_iterator(config.checkpoint.save_folder))
    if (entry.path().filename().string().ends_with(parallel::concat("-ba", batch)))
      return entry.path();
  return {};
}

/// Trains until each of these batches in turn, as one run and its resumptions do.
mpt::run_summary train_to(train_config config, std::vector<double> const& ends, int ranks) {
  mpt::run_summary out;
  for (double const end : ends) {
    config.run.max_duration.count = end;
    out = train<float>(config, ranks);
  }
  return out;
}

TEST_CASE("spike: is skipped in any layout, also by a run that is resumed before or after it") {
  spiked_files const files;
  int number = 0;
  for (auto const& layout :
       {grid{}, grid{.zero_stage = 3, .data = 2, .parallelism = {.tensor = 2, .pipeline = 2}}}) {
    CAPTURE(number);
    auto const name = parallel::concat("run", number++);
    auto const config = with_layout(files.run(name, 20, policy::skip), layout);
    auto const uninterrupted = train<float>(config, layout.ranks());
    auto const state = state_of(uninterrupted.checkpoint);
    CHECK(uninterrupted.batches == 20);
    CHECK(uninterrupted.skipped_batches == 1);
    CHECK(state.at("skipped").dump() == "[[15,15]]");
    CHECK(state.at("spikes").at("losses").size() == 8);
    auto const metrics = records(config.output.metrics_file);
    REQUIRE(metrics.size() == 19);  // the skipped batch has no record

    auto const resumed_config = with_layout(files.run(name + "resumed", 20, policy::skip), layout);
    auto const resumed = train_to(resumed_config, {14, 15, 20}, layout.ranks());
    CHECK(resumed.skipped_batches == 1);
    CHECK(tensors_of(resumed.checkpoint) == tensors_of(uninterrupted.checkpoint));
    CHECK(state_of(resumed.checkpoint).at("spikes") == state.at("spikes"));
    CHECK(state_of(resumed.checkpoint).at("skipped") == state.at("skipped"));

    auto unchecked = with_layout(files.run(name + "free", 20, policy::skip), layout);
    unchecked.run.spike_check.reset();
    auto const trained_on_spike = train<float>(unchecked, layout.ranks());
    CHECK(tensors_of(trained_on_spike.checkpoint) != tensors_of(uninterrupted.checkpoint));
    CHECK(state_of(trained_on_spike.checkpoint).at("skipped").empty());
    CHECK(state_of(trained_on_spike.checkpoint).at("spikes").is_null());
  }
}

/// Removes settings that depend on the batch number, so that all batches except spikes update
/// alike.
train_config timeless(train_config config) {
  config.model.resid_pdrop = 0;
  config.optimizer.scheduler.t_warmup = {0, time_unit::batch};
  config.optimizer.scheduler.alpha_f = 1;
  return config;
}

TEST_CASE("spike: the optimizer counts no update for a batch that is skipped or rolled back") {
  spiked_files const files, files_without_spike(0);
  auto const without_spike =
      train<float>(timeless(files_without_spike.run("calm", 17, policy::skip)));
  auto const two_batches_less =
      train<float>(timeless(files_without_spike.run("less", 15, policy::skip)));
  auto const skipped = train<float>(timeless(files.run("skipped", 18, policy::skip)));
  CHECK(state_of(skipped.checkpoint).at("skipped").dump() == "[[15,15]]");
  CHECK(tensors_of(skipped.checkpoint) == tensors_of(without_spike.checkpoint));
  auto const rolled_back = train<float>(timeless(files.run("back", 18, policy::roll_back)));
  CHECK(state_of(rolled_back.checkpoint).at("skipped").dump() == "[[13,15]]");
  CHECK(tensors_of(rolled_back.checkpoint) == tensors_of(two_batches_less.checkpoint));
  auto const resumed =
      train_to(timeless(files.run("resumed", 18, policy::skip)), {16, 18}, 2).checkpoint;
  auto const on_two_ranks =
      train<float>(timeless(files_without_spike.run("two", 17, policy::skip)), 2);
  CHECK(tensors_of(resumed) == tensors_of(on_two_ranks.checkpoint));
}

TEST_CASE("spike: ranks with corruption_check skip the same batch and have the same tensors") {
  spiked_files const files;
  auto config = with_layout(files.run("plain", 18, policy::skip), {.zero_stage = 2, .data = 2});
  auto const plain = train<float>(config, 2);
  config.checkpoint.save_folder = files.folder / "checked";
  config.run.corruption_check.interval = {1, time_unit::batch};
  auto const checked = train<float>(config, 2);
  CHECK(state_of(checked.checkpoint).at("skipped").dump() == "[[15,15]]");
  CHECK(tensors_of(checked.checkpoint) == tensors_of(plain.checkpoint));
}

TEST_CASE("spike: roll_back restores the tensors and spike statistics of the last checkpoint") {
  spiked_files const files;
  auto const config = files.run("run", 20, policy::roll_back);
  auto const uninterrupted = train<float>(config, 2);
  CHECK(state_of(uninterrupted.checkpoint).at("skipped").dump() == "[[13,15]]");

  auto const resumed_config = files.run("parts", 20, policy::roll_back);
  auto const at_spike = train_to(resumed_config, {15}, 2).checkpoint;
  auto const before_spike = saved_at(resumed_config, 12);
  CHECK(at_spike != before_spike);
  CHECK(state_of(at_spike).at("batches") == 15);
  CHECK(content_of(at_spike) == content_of(before_spike));
  CHECK(state_of(at_spike).at("spikes") == state_of(before_spike).at("spikes"));
  CHECK(tensors_of(train_to(resumed_config, {20}, 2).checkpoint) ==
        tensors_of(uninterrupted.checkpoint));
}

TEST_CASE("spike: policy `stop` ends the run with a message before anything is updated") {
  spiked_files const files;
  auto config = files.run("run", 20, policy::stop);
  std::string message;
  try {
    static_cast<void>(train<float>(config, 2));
  } catch (parallel::diverged const& found) {
    message = found.what();
  }
  CAPTURE(message);
  CHECK(message.starts_with("batch 15: the "));
  CHECK(test::contains(message, " is a spike, above the mean "));
  CHECK(test::contains(message, " of the last 8 updates by more than 6 standard deviations of "));
  CHECK(message.ends_with(
      "; nothing was updated: lower the learning rate, resume from an earlier checkpoint, or set "
      "spike_check.on_spike to skip or roll_back"));
  auto const last = parallel::checkpoint::latest(config.checkpoint.save_folder);
  REQUIRE(last.folder.has_value());
  CHECK(state_of(*last.folder).at("batches") == 12);
  // Resumed with policy `skip`, the run equals one that skips from the beginning.
  config.run.spike_check->on_spike = policy::skip;
  auto const continued = train<float>(config, 2);
  auto const skipping = train<float>(files.run("other", 20, policy::skip), 2);
  CHECK(tensors_of(continued.checkpoint) == tensors_of(skipping.checkpoint));
}

TEST_CASE("spike: ten in a row end the run") {
  spiked_files const files(12);
  auto const config = files.run("run", 26, policy::skip);
  std::string message;
  try {
    static_cast<void>(train<float>(config));
  } catch (parallel::diverged const& found) {
    message = found.what();
  }
  CAPTURE(message);
  CHECK(message.starts_with("batch 24: the "));
  CHECK(test::contains(message, "and 10 batches in a row would be skipped"));
}

}  // namespace
}  // namespace trainer_spikes_test
