// Whole runs with the program's options: profile, callbacks, optimizers, clipping, loggers.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/reader.hpp>

#include "mpt/train/tiny_run.hpp"
#include "support/captured_stderr.hpp"

namespace trainer_options_test {
namespace {

using namespace tiny_run;
using test::captured_stderr;
using test::contains;

/// The numbers of a profile's row: calls and milliseconds per step, share in percent.
struct profile_row {
  double calls = 0, ms = 0, share = 0;
};

/// The rows of a printed profile, by "stream operation".
std::map<std::string, profile_row> rows_of(std::string const& output) {
  std::map<std::string, profile_row> out;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string stream;
    std::string name;
    profile_row values;
    if (words >> stream >> name >> values.calls >> values.ms >> values.share)
      out[stream + " " + name] = values;
  }
  return out;
}

TEST_CASE("profile: every operation has a row, and the trace holds the same tasks") {
  run_files const files;
  auto config = files.config(6);
  config.run.profile = true;
  config.checkpoint.save_folder = files.folder / "run";
  auto const output =
      captured_stderr(files.folder / "said", [&] { (void)train<float>(config, 2); });
  CHECK(contains(output, "stream    operation"));
  CHECK(contains(output, "trace of these 3 batches, for Perfetto or chrome://tracing: " +
                             (files.folder / "run/profile.json").string()));
  auto const rows = rows_of(output);
  // two microbatches, one of two sequences and one of one, pass through two layers
  CHECK(rows.at("compute embedding").calls == 2);
  CHECK(rows.at("compute cross_entropy").calls == 2);
  CHECK(rows.at("compute attention").calls == 4);
  CHECK(rows.at("compute attention_backward").calls == 4);
  CHECK(rows.at("compute matmul").calls >= 2 * (2 * 4 + 1) * 3);  // forward, and backward twice
  CHECK(rows.contains("compute adamw"));
  CHECK(rows.contains("exchanges all_reduce"));
  CHECK(contains(output, " GF/s"));
  CHECK(contains(output, " GB/s"));

  auto const trace = nlohmann::json::parse(test::read_all(files.folder / "run/profile.json"));
  std::map<std::string, profile_row> traced_rows;
  for (auto const& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    auto& values = traced_rows[(event.at("tid") == 0 ? "compute " : "exchanges ") +
                               event.at("name").get<std::string>()];
    values.calls += 1.0 / 3;
    values.ms += event.at("dur").get<double>() / 3000;
    CHECK(event.at("ts").get<double>() >= 0);
  }
  CHECK(traced_rows.size() == rows.size());
  std::map<std::string, double> shares;
  for (auto const& entry : rows) {
    auto const& [name, values] = entry;
    CAPTURE(entry.first);
    REQUIRE(traced_rows.contains(name));
    CHECK(values.calls == doctest::Approx(traced_rows[name].calls).epsilon(1e-3));
    CHECK(std::abs(values.ms - traced_rows[name].ms) < 0.001);
    shares[name.substr(0, name.find(' '))] += values.share;
  }
  CHECK(std::abs(shares.at("compute") - 100) < 2);
  CHECK(std::abs(shares.at("exchanges") - 100) < 2);
}

TEST_CASE("recomputation: a run needs the memory of its plan, and its bits are the same") {
  run_files const files;
  auto config = files.config(3);
  auto const train_recomputing = [&](char const* name, mpt::block_recomputation const& recompute) {
    config.execution.recompute = recompute;
    config.checkpoint.save_folder = files.folder / name;
    return tensors_of(train<float>(config, 2).checkpoint);
  };
  auto const expected = train_recomputing("kept", {});
  CHECK(train_recomputing("cheap", mpt::with_cheap_recomputation({}, 2)) == expected);
  CHECK(train_recomputing("all", mpt::recompute_all(2)) == expected);
}

TEST_CASE(
    "profile: a short run profiles the batches that it has, or says why there is no profile") {
  run_files const files;
  auto config = files.config(3);
  config.run.profile = true;
  config.checkpoint.save_folder = files.folder / "run";
  config.checkpoint.autoresume = true;
  auto const output_until = [&](double batches) {
    config.run.max_duration.count = batches;
    return captured_stderr(files.folder / "said", [&] { (void)train<float>(config); });
  };
  auto const first_output = output_until(1);
  CHECK(contains(first_output, "no profile: the first batch"));
  CHECK(contains(first_output, "no other was trained here"));
  CHECK(!fs::exists(files.folder / "run/profile.json"));
  auto const second_output = output_until(4);  // three more batches, of which two are timed
  CHECK(contains(second_output, "trace of these 2 batches"));
  CHECK(rows_of(second_output).at("compute attention").calls == 6);  // 3 microbatches, 2 layers
  CHECK(fs::exists(files.folder / "run/profile.json"));
  auto const third_output = output_until(6);
  CHECK(contains(third_output, "trace of this batch"));
  CHECK(rows_of(third_output).at("compute attention").calls == 6);
  CHECK(contains(output_until(6),
                 "no profile: the first batch, in which caches fill, is not timed, and "
                 "none was trained here"));
}

TEST_CASE("waiting for data: a run reports it in the batches that wait") {
  run_files const files;
  std::vector<std::vector<std::int32_t>> rows;
  for (std::int32_t i = 0; i < 24; ++i)  // reading the fourth batch of an epoch takes long
    rows.emplace_back(i < 18 ? length : std::int32_t{1} << 21, i % vocabulary);
  test::write_token_set(files.folder / "slow", rows);
  auto config = files.config(12);
  config.data.train_loader.streams = {{.local = files.folder / "slow"}};
  config.data.train_loader.shuffle = false;
  config.callbacks.speed_window = 1;
  config.output.metrics_file = files.folder / "metrics.jsonl";
  config.output.log_to_console = true;
  mpt::run_summary summary;
  std::string output;
  std::vector<double> share;
  std::size_t worst = 3;
  // Other batches do not report the wait of an earlier one.
  auto const other_batches_wait_less = [&] {
    return std::min({share[4], share[5], share[6], share[8], share[9], share[10]}) <
           0.5 * share[worst];
  };
  // On a busy machine the slow batches may be read in time, or any batch may be interrupted; the
  // run is then repeated.
  for (int attempt = 0; attempt < 10 && (share.empty() || !other_batches_wait_less()); ++attempt) {
    fs::remove(config.output.metrics_file);
    output = captured_stderr(files.folder / "said", [&] { summary = train<float>(config); });
    share.clear();
    for (auto const& record : records(config.output.metrics_file))
      share.push_back(record.at("time/data_wait_share").get<double>());
    REQUIRE(share.size() == 12);
    for (auto const& wait : share) CHECK((wait >= 0 && wait <= 1));
    worst = 3;
    for (std::size_t const b : {7U, 11U})
      if (share[b] > share[worst]) worst = b;
  }
  CHECK(share[worst] > 0);  // the size of the share depends on the machine
  CHECK(other_batches_wait_less());
  CHECK(summary.data_wait_share > 0);
  CHECK(summary.data_wait_share <= *std::ranges::max_element(share));
  auto const line = output.substr(output.find(fmt::format("{}/12 ba", worst + 1)));
  CHECK(contains(
      line.substr(0, line.find('\n')),  // a share below 2 % is not shown
      share[worst] < 0.02 ? "left" : fmt::format("waits {:.0f} % for data (", 100 * share[worst])));
}

/// All whole weights of a checkpoint, by name.
std::map<std::string, std::vector<float>> weights_of(fs::path const& folder) {
  parallel::checkpoint::checkpoint_reader const reader(folder);
  std::map<std::string, std::vector<float>> out;
  for (auto const& [name, tensor] : reader.tensors()) {
    if (!name.ends_with(".weight") && !name.ends_with(".bias")) continue;
    auto& values = out[name];
    values.resize(static_cast<std::size_t>(tensor.size()));
    reader.read_bytes(name, 0, std::as_writable_bytes(std::span(values)));
  }
  return out;
}

TEST_CASE("Lion: every element moves by its group's learning rate, and frozen ones do not move") {
  run_files const files;
  auto config = divisible_config(files, 3);
  config.optimizer.name = "decoupled_lionw";
  config.optimizer.lr = 1e-3;
  config.optimizer.beta2 = 0.99;
  config.optimizer.weight_decay = 0;
  mpt::parameter_group group;
  group.lr = 8e-3;
  group.beta2 = 0.99;
  group.weight_decay = 0;
  group.match = {"up_proj", ""};
  config.optimizer.groups = {group};
  config.optimizer.disable_grad = {{"blocks.1.attn", ""}};
  config.optimizer.frozen_layers = {"model.transformer.norm_f.weight"};
  config.checkpoint.save_interval = {1, time_unit::batch};
  int number = 0;
  for (auto const& layout : {grid{}, grids[3], grids[4], grids[6]}) {
    CAPTURE(number);
    auto variant = with_layout(config, layout);
    auto const name = std::to_string(number++);
    variant.checkpoint.save_folder = files.folder / name;
    variant.output.metrics_file = files.folder / (name + ".jsonl");
    (void)train<float>(variant, layout.ranks());
    auto const metrics = records(variant.output.metrics_file);
    REQUIRE(metrics.size() == 3);
    for (int batch = 2; batch <= 3; ++batch) {
      auto const folder = [&](int b) {
        for (auto const& entry : fs::directory_iterator(variant.checkpoint.save_folder))
          if (entry.path().filename().string().ends_with(fmt::format("-ba{}", b)))
            return entry.path();
        return fs::path();
      };
      auto const old_weights = weights_of(folder(batch - 1));
      auto const new_weights = weights_of(folder(batch));
      auto const& record = metrics[static_cast<std::size_t>(batch - 1)];
      double const rate = record.at("lr-DecoupledLionW/group0").get<double>();
      CHECK(record.at("lr-DecoupledLionW/group1").get<double>() == doctest::Approx(8 * rate));
      REQUIRE(old_weights.size() > 20);
      for (auto const& entry : old_weights) {
        auto const& [tensor, values] = entry;
        CAPTURE(entry.first);
        bool const frozen = tensor.find("blocks.1.attn") != std::string::npos ||
                            tensor == "transformer.norm_f.weight";
        double const expected_step = frozen                                        ? 0
                                     : tensor.find("up_proj") != std::string::npos ? 8 * rate
                                                                                   : rate;
        std::size_t moved = 0;
        double worst = 0;  // the largest difference from a whole step, in steps
        for (std::size_t i = 0; i < values.size(); ++i) {
          double const change =
              std::abs(static_cast<double>(new_weights.at(tensor)[i]) - values[i]);
          if (change == 0) continue;  // no gradient so far
          ++moved;
          worst = std::max(worst, std::abs(change / expected_step - 1));
        }
        CHECK((frozen ? moved == 0 : moved > 0));
        CHECK(worst < 1e-3);
        if (tensor.ends_with("up_proj.weight")) CHECK(moved > values.size() * 9 / 10);
      }
    }
  }
}

/// Returns the metrics of a run that measures all tensors in every batch.
std::vector<nlohmann::json> measured(run_files const& files, train_config config,
                                     grid const& layout = {}) {
  static int number = 0;
  config = with_layout(std::move(config), layout);
  config.callbacks.optimizer_monitor_interval = 1;
  config.output.metrics_file = files.folder / fmt::format("measured{}.jsonl", number++);
  (void)train<float>(config, layout.ranks());
  return records(config.output.metrics_file);
}

TEST_CASE("clipping: `value` bounds every element, `adaptive` every row, in any layout") {
  using kind = parallel::train::clipping_kind;
  run_files const files;
  auto config = divisible_config(files, 3);
  for (auto const clip : {kind::value, kind::adaptive}) {
    CAPTURE(static_cast<int>(clip));
    // The bound is so small that every element or row is clipped, which makes the norm known.
    config.optimizer.lr = 1e-9;
    config.optimizer.clip = {clip, 1e-6};
    for (auto const& record : measured(files, config)) {
      auto const norm_of = [&](std::string const& quantity) {
        return record.at("l2_norm/" + quantity + "/model.transformer.blocks.1.ffn.up_proj.weight")
            .get<double>();
      };
      double const expected =
          1e-6 * (clip == kind::value ? std::sqrt(64.0 * 16) : norm_of("param"));
      CHECK(norm_of("grad") == doctest::Approx(expected).epsilon(0.01));
    }
    // The bound is so large that only some are clipped.
    config.optimizer.lr = 1e-2;
    config.optimizer.clip = {clip, clip == kind::value ? 2e-3 : 2e-2};
    auto const expected = measured(files, config);
    REQUIRE(expected.size() == 3);
    auto unclipped = config;
    unclipped.optimizer.clip = {};
    CHECK(measured(files, unclipped)[0].at("l2_norm/grad/global") >
          expected[0].at("l2_norm/grad/global"));
    for (std::size_t const g : {1U, 3U, 4U, 6U}) {
      CAPTURE(g);
      auto const found = measured(files, config, grids[g]);
      REQUIRE(found.size() == 3);
      for (std::size_t r = 0; r < 3; ++r)
        for (auto const& entry : expected[r].items()) {
          auto const& [key, value] = entry;
          if (!key.starts_with("loss/") && !key.starts_with("l2_norm/grad/")) continue;
          // the loss does not depend on the keys' bias, whose gradient is only rounding
          if (key.ends_with("Wqkv.bias")) continue;
          CAPTURE(entry.key());
          CHECK(found[r].at(key).get<double>() ==
                doctest::Approx(value.get<double>()).epsilon(5e-4));
        }
    }
  }
}

TEST_CASE("early_stopper: a resumed run stops where the uninterrupted one stops") {
  run_files const files;
  auto config = files.config(20);
  config.data.eval_loaders = {files.held_out()};
  config.evaluation.eval_interval = {2, time_unit::batch};
  int number = 0;
  for (std::string const label : {"train", "eval"}) {
    CAPTURE(label);
    config.callbacks.early_stopper = {.monitor = "LanguageCrossEntropy",
                                      .dataloader_label = label,
                                      .min_delta = 10,  // no later value counts as better
                                      .patience = {3, time_unit::batch}};
    auto const run = [&](std::vector<double> const& ends) {
      auto run_config = config;
      run_config.checkpoint.save_folder = files.folder / std::to_string(number++);
      run_config.checkpoint.autoresume = true;
      mpt::run_summary summary;
      for (double const end : ends) {
        run_config.run.max_duration.count = end;
        (void)captured_stderr(files.folder / "said",
                              [&] { summary = train<float>(run_config, 2); });
      }
      return summary;
    };
    auto const uninterrupted = run({20});
    CHECK(uninterrupted.batches == (label == "train" ? 5 : 6));
    auto const resumed = run({3, 20});
    CHECK(resumed.batches == uninterrupted.batches);
    CHECK(resumed.loss == uninterrupted.loss);
    CHECK(tensors_of(resumed.checkpoint) == tensors_of(uninterrupted.checkpoint));
  }
}

/// The values of a tag in an event file, in order: each follows its tag as protobuf's float
/// field 2.
std::vector<float> values_of(std::string const& events, std::string const& tag) {
  std::vector<float> out;
  for (auto position = events.find(tag + '\x15'); position != std::string::npos;
       position = events.find(tag + '\x15', position + 1)) {
    float value = 0;
    std::memcpy(&value, events.data() + position + tag.size() + 1, sizeof value);
    out.push_back(value);
  }
  return out;
}

TEST_CASE("loggers.tensorboard: events hold the metrics' numbers; a resumed run adds a new file") {
  run_files const files;
  auto config = files.config(3);
  config.data.eval_loaders = {files.held_out()};
  config.evaluation.eval_interval = {3, time_unit::batch};
  config.checkpoint.save_folder = files.folder / "run";
  config.checkpoint.autoresume = true;
  config.output.loggers.tensorboard = files.folder / "events/tiny";
  config.output.metrics_file = files.folder / "metrics.jsonl";
  std::vector<std::string> event_files;
  for (double const end : {3.0, 5.0}) {
    config.run.max_duration.count = end;
    (void)captured_stderr(files.folder / "said", [&] { (void)train<float>(config, 2); });
    for (auto const& entry : fs::directory_iterator(files.folder / "events/tiny"))
      if (std::ranges::find(event_files, entry.path().string()) == event_files.end())
        event_files.push_back(entry.path());
  }
  REQUIRE(event_files.size() == 2);  // only rank 0 writes
  for (std::string const tag : {"loss/train/total", "l2_norm/grad/global",
                                "lr-DecoupledAdamW/group0", "metrics/eval/LanguageCrossEntropy"}) {
    CAPTURE(tag);
    std::vector<float> expected;
    for (auto const& record : records(config.output.metrics_file))
      if (record.contains(tag)) expected.push_back(record.at(tag).get<float>());
    auto values = values_of(test::read_all(event_files[0]), tag);
    CHECK(values.size() == (tag.starts_with("metrics/eval") ? 1 : 3));
    std::ranges::copy(values_of(test::read_all(event_files[1]), tag), std::back_inserter(values));
    CHECK(values == expected);
  }
}

TEST_CASE(
    "save_weights_only: a run can begin with the saved weights, but not be resumed from them") {
  run_files const files;
  auto config = divisible_config(files, 2);
  config.optimizer.disable_grad = {{"norm_1.weight", ""}};
  grid const shards{.zero_stage = 3, .data = 2, .parallelism = {.tensor = 2}};
  config.checkpoint.save_folder = files.folder / "whole";
  auto const all_tensors =
      content_of(train<float>(with_layout(config, shards), shards.ranks()).checkpoint);
  config.checkpoint.save_folder = files.folder / "weights";
  config.checkpoint.save_weights_only = true;
  for (bool const in_background : {true, false}) {
    config.checkpoint.save_overwrite = !in_background;
    fs::path const checkpoint =
        train<float>(with_layout(config, shards), shards.ranks(), {.in_background = in_background})
            .checkpoint;
    auto const weights = content_of(checkpoint);
    for (auto const& [name, bytes] : all_tensors)
      if (name.find('#') == std::string::npos)
        CHECK(weights.at(name) == bytes);
      else
        CHECK_FALSE(weights.contains(name));
    if (!in_background) continue;
    config.run.max_duration.count = 4;
    config.checkpoint.load_path = checkpoint;
    config.checkpoint.save_folder.clear();
    CHECK(contains(test::message_of([&] { static_cast<void>(train<float>(config)); }),
                   "holds weights alone (save_weights_only), and an optimizer cannot go on from "
                   "these; begin with them: load_weights_only=true"));
    config.checkpoint.load_weights_only = true;
    CHECK(train<float>(config).batches == 4);
    config.run.max_duration.count = 2;
    config.checkpoint.load_path.clear();
    config.checkpoint.save_folder = files.folder / "weights";
  }
}

}  // namespace
}  // namespace trainer_options_test
