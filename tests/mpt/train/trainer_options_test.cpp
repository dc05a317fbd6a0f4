// Options of a run as the whole program has them: profile, callbacks, optimizers, clipping,
// loggers.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/reader.hpp>

#include "support/captured_stderr.hpp"
#include "tiny_run.hpp"

namespace trainer_options_test {
namespace {

using namespace tiny_run;
using test::captured_stderr;
using test::contains;

/// The numbers of a profile's row: calls and milliseconds of a step, share in percent.
struct row {
  double calls = 0, ms = 0, share = 0;
};

/// The rows of a profile by "stream operation".
std::map<std::string, row> rows_of(std::string const& said) {
  std::map<std::string, row> out;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string stream;
    std::string name;
    row r;
    if (words >> stream >> name >> r.calls >> r.ms >> r.share) out[stream + " " + name] = r;
  }
  return out;
}

TEST_CASE("a profile has a row for every operation, and a trace of the same tasks") {
  run_files const files;
  auto config = files.config(6);
  config.profile = true;
  config.checkpoint.save_folder = files.folder / "run";
  auto const said = captured_stderr(files.folder / "said", [&] { (void)train<float>(config, 2); });
  CHECK(contains(said, "stream    operation"));
  CHECK(contains(said, "trace of these 3 batches, for Perfetto or chrome://tracing: " +
                           (files.folder / "run/profile.json").string()));
  auto const rows = rows_of(said);
  // two microbatches, of two sequences and of one, through two layers
  CHECK(rows.at("compute embedding").calls == 2);
  CHECK(rows.at("compute cross_entropy").calls == 2);
  CHECK(rows.at("compute attention").calls == 4);
  CHECK(rows.at("compute attention_backward").calls == 4);
  CHECK(rows.at("compute matmul").calls >= 2 * (2 * 4 + 1) * 3);  // forward, and backward twice
  CHECK(rows.contains("compute adamw"));
  CHECK(rows.contains("exchanges all_reduce"));
  CHECK(contains(said, " GF/s"));
  CHECK(contains(said, " GB/s"));

  auto const trace = nlohmann::json::parse(test::read_all(files.folder / "run/profile.json"));
  std::map<std::string, row> traced;
  for (auto const& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    auto& r = traced[(event.at("tid") == 0 ? "compute " : "exchanges ") +
                     event.at("name").get<std::string>()];
    r.calls += 1.0 / 3;
    r.ms += event.at("dur").get<double>() / 3000;
    CHECK(event.at("ts").get<double>() >= 0);
  }
  CHECK(traced.size() == rows.size());
  std::map<std::string, double> shares;
  for (auto const& at : rows) {
    auto const& [name, r] = at;
    CAPTURE(at.first);
    REQUIRE(traced.contains(name));
    CHECK(r.calls == doctest::Approx(traced[name].calls).epsilon(1e-3));
    CHECK(std::abs(r.ms - traced[name].ms) < 0.001);
    shares[name.substr(0, name.find(' '))] += r.share;
  }
  CHECK(std::abs(shares.at("compute") - 100) < 2);
  CHECK(std::abs(shares.at("exchanges") - 100) < 2);
}

TEST_CASE("what a plan recomputes is recomputed: other memory, as planned, and the same bits") {
  run_files const files;
  auto config = files.config(3);
  auto const weights_with = [&](char const* name, mpt::block_recomputation const& again) {
    config.recompute = again;
    config.checkpoint.save_folder = files.folder / name;
    return tensors_of(train<float>(config, 2).checkpoint);
  };
  auto const kept = weights_with("kept", {});
  CHECK(weights_with("cheap", mpt::with_cheap_recomputation({}, 2)) == kept);
  CHECK(weights_with("all", mpt::recompute_all(2)) == kept);
}

TEST_CASE("a run too short for a whole profile gives what it has, or says why there is nothing") {
  run_files const files;
  auto config = files.config(3);
  config.profile = true;
  config.checkpoint.save_folder = files.folder / "run";
  config.checkpoint.autoresume = true;
  auto const after = [&](double batches) {
    config.max_duration.count = batches;
    return captured_stderr(files.folder / "said", [&] { (void)train<float>(config); });
  };
  auto const none = after(1);
  CHECK(contains(none, "no profile: the first batch"));
  CHECK(contains(none, "no other was trained here"));
  CHECK(!fs::exists(files.folder / "run/profile.json"));
  auto const two = after(4);  // three more, of which two are timed
  CHECK(contains(two, "trace of these 2 batches"));
  CHECK(rows_of(two).at("compute attention").calls == 6);  // three microbatches, two layers
  CHECK(fs::exists(files.folder / "run/profile.json"));
  auto const one = after(6);
  CHECK(contains(one, "trace of this batch"));
  CHECK(rows_of(one).at("compute attention").calls == 6);
  CHECK(contains(after(6),
                 "no profile: the first batch, in which caches fill, is not timed, and "
                 "none was trained here"));
}

TEST_CASE("a run that waits for data says so in the batches that do") {
  run_files const files;
  std::vector<std::vector<std::int32_t>> rows;
  for (std::int32_t i = 0; i < 24; ++i)  // the fourth batch of an epoch is read for long
    rows.emplace_back(i < 18 ? length : std::int32_t{1} << 21, i % vocabulary);
  test::write_token_set(files.folder / "slow", rows);
  auto config = files.config(12);
  config.train_loader.streams = {{.local = files.folder / "slow"}};
  config.train_loader.shuffle = false;
  config.callbacks.speed_window = 1;
  config.logging.metrics_file = files.folder / "metrics.jsonl";
  config.logging.log_to_console = true;
  mpt::run_summary summary;
  std::string said;
  std::vector<double> share;
  std::size_t worst = 3;
  // What was waited before is forgotten.
  auto const others_wait_less = [&] {
    return std::min({share[4], share[5], share[6], share[8], share[9], share[10]}) <
           0.5 * share[worst];
  };
  // A busy machine may give all such batches the time to be read, or interrupt any: then it is
  // asked again.
  for (int attempt = 0; attempt < 10 && (share.empty() || !others_wait_less()); ++attempt) {
    fs::remove(config.logging.metrics_file);
    said = captured_stderr(files.folder / "said", [&] { summary = train<float>(config); });
    share.clear();
    for (auto const& record : records(config.logging.metrics_file))
      share.push_back(record.at("time/data_wait_share").get<double>());
    REQUIRE(share.size() == 12);
    for (auto const& s : share) CHECK((s >= 0 && s <= 1));
    worst = 3;
    for (std::size_t const b : {7U, 11U})
      if (share[b] > share[worst]) worst = b;
  }
  CHECK(share[worst] > 0);  // how much of a batch that is, is the machine's
  CHECK(others_wait_less());
  CHECK(summary.data_wait_share > 0);
  CHECK(summary.data_wait_share <= *std::ranges::max_element(share));
  auto const line = said.substr(said.find(fmt::format("{}/12 ba", worst + 1)));
  CHECK(contains(line.substr(0, line.find('\n')),
                 fmt::format("waits {:.0f} % for data (", 100 * share[worst])));
}

/// All weights of a checkpoint, whole.
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

TEST_CASE("Lion steps by its group's learning rate in every element, and frozen ones stay") {
  run_files const files;
  auto config = divisible_config(files, 3);
  config.optimizer.name = "decoupled_lionw";
  config.optimizer.lr = 1e-3;
  config.optimizer.beta2 = 0.99;
  config.optimizer.weight_decay = 0;
  mpt::parameter_group own;
  own.lr = 8e-3;
  own.beta2 = 0.99;
  own.weight_decay = 0;
  own.match = {"up_proj", ""};
  config.optimizer.groups = {own};
  config.optimizer.disable_grad = {{"blocks.1.attn", ""}};
  config.callbacks.frozen_layers = {"model.transformer.norm_f.weight"};
  config.checkpoint.save_interval = {1, time_unit::batch};
  int number = 0;
  for (auto const& layout : {grid{}, grids[3], grids[4], grids[6]}) {
    CAPTURE(number);
    auto of = with_layout(config, layout);
    auto const name = std::to_string(number++);
    of.checkpoint.save_folder = files.folder / name;
    of.logging.metrics_file = files.folder / (name + ".jsonl");
    (void)train<float>(of, layout.ranks());
    auto const all = records(of.logging.metrics_file);
    REQUIRE(all.size() == 3);
    for (int batch = 2; batch <= 3; ++batch) {
      auto const folder = [&](int b) {
        for (auto const& entry : fs::directory_iterator(of.checkpoint.save_folder))
          if (entry.path().filename().string().ends_with(fmt::format("-ba{}", b)))
            return entry.path();
        return fs::path();
      };
      auto const before = weights_of(folder(batch - 1));
      auto const after = weights_of(folder(batch));
      auto const& record = all[static_cast<std::size_t>(batch - 1)];
      double const rate = record.at("lr-DecoupledLionW/group0").get<double>();
      CHECK(record.at("lr-DecoupledLionW/group1").get<double>() == doctest::Approx(8 * rate));
      REQUIRE(before.size() > 20);
      for (auto const& at : before) {
        auto const& [tensor, values] = at;
        CAPTURE(at.first);
        bool const frozen = tensor.find("blocks.1.attn") != std::string::npos ||
                            tensor == "transformer.norm_f.weight";
        double const step = frozen                                        ? 0
                            : tensor.find("up_proj") != std::string::npos ? 8 * rate
                                                                          : rate;
        std::size_t moved = 0;
        double worst = 0;  // difference from a whole step, in steps
        for (std::size_t i = 0; i < values.size(); ++i) {
          double const change = std::abs(static_cast<double>(after.at(tensor)[i]) - values[i]);
          if (change == 0) continue;  // no gradient so far
          ++moved;
          worst = std::max(worst, std::abs(change / step - 1));
        }
        CHECK((frozen ? moved == 0 : moved > 0));
        CHECK(worst < 1e-3);
        if (tensor.ends_with("up_proj.weight")) CHECK(moved > values.size() * 9 / 10);
      }
    }
  }
}

/// Records of a run that measures all tensors in every batch.
std::vector<nlohmann::json> measured(run_files const& files, train_config config,
                                     grid const& layout = {}) {
  static int number = 0;
  config = with_layout(std::move(config), layout);
  config.callbacks.optimizer_monitor_interval = 1;
  config.logging.metrics_file = files.folder / fmt::format("measured{}.jsonl", number++);
  (void)train<float>(config, layout.ranks());
  return records(config.logging.metrics_file);
}

TEST_CASE("value clipping bounds every element, adaptive clipping every row, in any layout") {
  using kind = parallel::train::clipping_kind;
  run_files const files;
  auto config = divisible_config(files, 3);
  for (auto const clip : {kind::value, kind::adaptive}) {
    CAPTURE(static_cast<int>(clip));
    // so small that all are clipped: then the norm is known
    config.optimizer.lr = 1e-9;
    config.clip = {clip, 1e-6};
    for (auto const& record : measured(files, config)) {
      auto const of = [&](std::string const& what) {
        return record.at("l2_norm/" + what + "/model.transformer.blocks.1.ffn.up_proj.weight")
            .get<double>();
      };
      double const norm = 1e-6 * (clip == kind::value ? std::sqrt(64.0 * 16) : of("param"));
      CHECK(of("grad") == doctest::Approx(norm).epsilon(0.01));
    }
    // so large that some are
    config.optimizer.lr = 1e-2;
    config.clip = {clip, clip == kind::value ? 2e-3 : 2e-2};
    auto const one = measured(files, config);
    REQUIRE(one.size() == 3);
    auto free = config;
    free.clip = {};
    CHECK(measured(files, free)[0].at("l2_norm/grad/global") > one[0].at("l2_norm/grad/global"));
    for (std::size_t const g : {1U, 3U, 4U, 6U}) {
      CAPTURE(g);
      auto const other = measured(files, config, grids[g]);
      REQUIRE(other.size() == 3);
      for (std::size_t r = 0; r < 3; ++r)
        for (auto const& at : one[r].items()) {
          auto const& [key, value] = at;
          if (!key.starts_with("loss/") && !key.starts_with("l2_norm/grad/")) continue;
          // the loss does not depend on the keys' bias: what there is of it is rounding
          if (key.ends_with("Wqkv.bias")) continue;
          CAPTURE(at.key());
          CHECK(other[r].at(key).get<double>() ==
                doctest::Approx(value.get<double>()).epsilon(5e-4));
        }
    }
  }
}

TEST_CASE("early_stopper stops a resumed run where the uninterrupted one stops") {
  run_files const files;
  auto config = files.config(20);
  config.eval_loaders = {files.held_out()};
  config.evaluation.eval_interval = {2, time_unit::batch};
  int number = 0;
  for (std::string const label : {"train", "eval"}) {
    CAPTURE(label);
    config.callbacks.early_stopper = {.monitor = "LanguageCrossEntropy",
                                      .dataloader_label = label,
                                      .min_delta = 10,  // nothing is ever better than the first
                                      .patience = {3, time_unit::batch}};
    auto const run = [&](std::vector<double> const& ends) {
      auto part = config;
      part.checkpoint.save_folder = files.folder / std::to_string(number++);
      part.checkpoint.autoresume = true;
      mpt::run_summary last;
      for (double const end : ends) {
        part.max_duration.count = end;
        (void)captured_stderr(files.folder / "said", [&] { last = train<float>(part, 2); });
      }
      return last;
    };
    auto const calm = run({20});
    CHECK(calm.batches == (label == "train" ? 5 : 6));
    auto const resumed = run({3, 20});
    CHECK(resumed.batches == calm.batches);
    CHECK(resumed.loss == calm.loss);
    CHECK(tensors_of(resumed.checkpoint) == tensors_of(calm.checkpoint));
  }
}

/// The values of a tag in an event file, in order: each follows its tag as protobuf's float 2.
std::vector<float> values_of(std::string const& events, std::string const& tag) {
  std::vector<float> out;
  for (auto at = events.find(tag + '\x15'); at != std::string::npos;
       at = events.find(tag + '\x15', at + 1)) {
    float value = 0;
    std::memcpy(&value, events.data() + at + tag.size() + 1, sizeof value);
    out.push_back(value);
  }
  return out;
}

TEST_CASE("loggers.tensorboard gets the metrics file's numbers, a resumed run's in a new file") {
  run_files const files;
  auto config = files.config(3);
  config.eval_loaders = {files.held_out()};
  config.evaluation.eval_interval = {3, time_unit::batch};
  config.checkpoint.save_folder = files.folder / "run";
  config.checkpoint.autoresume = true;
  config.logging.tensorboard = files.folder / "events";
  config.logging.metrics_file = files.folder / "metrics.jsonl";
  std::vector<std::string> event_files;
  for (double const end : {3.0, 5.0}) {
    config.max_duration.count = end;
    (void)captured_stderr(files.folder / "said", [&] { (void)train<float>(config, 2); });
    for (auto const& entry : fs::directory_iterator(files.folder / "events/tiny"))
      if (std::ranges::find(event_files, entry.path().string()) == event_files.end())
        event_files.push_back(entry.path());
  }
  REQUIRE(event_files.size() == 2);  // rank 0's alone
  for (std::string const tag : {"loss/train/total", "l2_norm/grad/global",
                                "lr-DecoupledAdamW/group0", "metrics/eval/LanguageCrossEntropy"}) {
    CAPTURE(tag);
    std::vector<float> expected;
    for (auto const& record : records(config.logging.metrics_file))
      if (record.contains(tag)) expected.push_back(record.at(tag).get<float>());
    auto all = values_of(test::read_all(event_files[0]), tag);
    CHECK(all.size() == (tag.starts_with("metrics/eval") ? 1 : 3));
    std::ranges::copy(values_of(test::read_all(event_files[1]), tag), std::back_inserter(all));
    CHECK(all == expected);
  }
}

TEST_CASE("save_weights_only writes the weights alone, with which a run can begin but not go on") {
  run_files const files;
  auto config = divisible_config(files, 2);
  config.optimizer.disable_grad = {{"norm_1.weight", ""}};
  grid const shards{.zero_stage = 3, .data = 2, .parallelism = {.tensor = 2}};
  config.checkpoint.save_folder = files.folder / "whole";
  auto const whole =
      content_of(train<float>(with_layout(config, shards), shards.ranks()).checkpoint);
  config.checkpoint.save_folder = files.folder / "weights";
  config.checkpoint.save_weights_only = true;
  for (bool const in_background : {true, false}) {
    config.checkpoint.save_overwrite = !in_background;
    fs::path const saved =
        train<float>(with_layout(config, shards), shards.ranks(), {.in_background = in_background})
            .checkpoint;
    auto const weights = content_of(saved);
    for (auto const& [name, bytes] : whole)
      if (name.find('#') == std::string::npos)
        CHECK(weights.at(name) == bytes);
      else
        CHECK_FALSE(weights.contains(name));
    if (!in_background) continue;
    config.max_duration.count = 4;
    config.checkpoint.load_path = saved;
    config.checkpoint.save_folder.clear();
    CHECK(contains(test::message_of([&] { static_cast<void>(train<float>(config)); }),
                   "holds weights alone (save_weights_only), and an optimizer cannot go on from "
                   "these; begin with them: load_weights_only=true"));
    config.checkpoint.load_weights_only = true;
    CHECK(train<float>(config).batches == 4);
    config.max_duration.count = 2;
    config.checkpoint.load_path.clear();
    config.checkpoint.save_folder = files.folder / "weights";
  }
}

}  // namespace
}  // namespace trainer_options_test
