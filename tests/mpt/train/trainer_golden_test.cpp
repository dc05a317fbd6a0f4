// Compares whole trainings with PyTorch (tests/reference/make_training.py): 24 steps of both forms
// of MPT, configured by YAML, with AdamW and Lion, warm-up, clipping of each kind, groups and
// frozen parameters, dropout, microbatches that do not divide the batch, and logits in more than
// one chunk. Other tests compare layouts with each other.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/read_train.hpp>
#include <mpt/yaml/document.hpp>
#include <parallel/checkpoint/format/safetensors.hpp>
#include <parallel/checkpoint/reader.hpp>
#include <parallel/checkpoint/save.hpp>
#include <support/golden/golden_tensor.hpp>

#include "mpt/train/tiny_run.hpp"

namespace trainer_golden_test {
namespace {

namespace pc = parallel::checkpoint;
using numbers = std::vector<double>;

/// The result of a training: losses and gradient norms by step, and the final parameters.
struct outcome {
  numbers loss, gradient_norm;
  std::map<std::string, numbers> parameters = {};
};

[[nodiscard]] double largest(numbers const& x) {
  double largest_value = 0;
  for (double const v : x) largest_value = std::max(largest_value, std::abs(v));
  return largest_value;
}

/// The largest absolute difference, or NaN where a difference is NaN.
[[nodiscard]] double largest_difference(numbers const& a, numbers const& b) {
  REQUIRE(a.size() == b.size());
  double largest_value = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (double const difference = std::abs(a[i] - b[i]); !(difference <= largest_value))
      largest_value = difference;
  return largest_value;
}

[[nodiscard]] double squared_distance(numbers const& a, numbers const& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

/// The golden file of one form of MPT: initial parameters, ids, and several runs.
class golden_training {
 public:
  explicit golden_training(std::string const& form)
      : file_(test::golden_folder() / ("training_" + form + ".safetensors")) {
    auto const& shape = file_.at("ids").extents;
    std::vector<std::int32_t> ids(static_cast<std::size_t>(file_.at("ids").size()));
    file_.read_bytes("ids", 0, std::ssize(ids), std::as_writable_bytes(std::span(ids)));
    std::vector<std::vector<std::int32_t>> rows;
    for (auto row = ids.begin(); row != ids.end(); row += shape[1])
      rows.emplace_back(row, row + shape[1]);
    test::write_token_set(folder_ / "data", rows);
    save_initial();
    for (auto const& [key, value] : file_.metadata())
      if (key.starts_with("run/")) runs_[key.substr(4)] = value;
  }

  /// The configurations, by name of the run.
  [[nodiscard]] std::map<std::string, std::string> const& runs() const { return runs_; }

  /// PyTorch's result in fp64.
  [[nodiscard]] outcome expected(std::string const& run) const {
    auto const get = [&](std::string const& name) {
      return test::golden_tensor<double>(file_, run + name);
    };
    outcome out{get("/loss"), get("/gradient_norm")};
    for (auto const& name : parameters()) out.parameters[name] = get("/param/" + name);
    return out;
  }

  /// The distance of PyTorch's bf16 run from its fp64 run: root of the sum of squared differences
  /// of losses, of gradient norms, of parameters.
  [[nodiscard]] numbers bf16_distances(std::string const& run) const {
    return test::golden_tensor<double>(file_, run + "/bf16_apart");
  }

  /// The result of the same training by the trainer, with elements T in a layout, from the same
  /// initial parameters.
  template <class T>
  [[nodiscard]] outcome train(std::string const& run, tiny_run::grid const& layout = {}) const {
    test::temporary_folder const folder;
    auto const metrics = folder / "metrics.jsonl";
    std::vector<std::string> const paths{
        "train_loader.dataset.local=" + (folder_ / "data").string(),
        "load_path=" + (folder_ / "initial").string(), "load_weights_only=true",
        "save_folder=" + (folder / "saved").string(), "metrics_file=" + metrics.string()};
    auto config = mpt::read_train_config(mpt::make_document(runs_.at(run), run, paths));
    config.callbacks.gpu_flops_available = 1e12;  // not measured
    config.model.logits_bytes = 1;                // chunks of 128 rows
    auto const summary =
        tiny_run::train<T>(tiny_run::with_layout(std::move(config), layout), layout.ranks());
    outcome out;
    for (auto const& record : tiny_run::records(metrics)) {
      out.loss.push_back(record.at("loss/train/total").get<double>());
      out.gradient_norm.push_back(record.at("l2_norm/grad/global").get<double>());
    }
    pc::checkpoint_reader const saved(summary.checkpoint);
    for (auto const& name : parameters()) {
      auto& values = out.parameters[name];
      values.resize(static_cast<std::size_t>(saved.at(name).size()));
      saved.read(name, 0, std::span(values));
    }
    return out;
  }

 private:
  [[nodiscard]] std::vector<std::string> parameters() const {
    std::vector<std::string> out;
    for (auto const& tensor : file_.tensors())
      if (tensor.name.starts_with("param/")) out.push_back(tensor.name.substr(6));
    return out;
  }

  /// Saves the initial parameters as a checkpoint of fp64 weights alone.
  void save_initial() const {
    pc::save_target const target{folder_ / "initial", {0, 0}, 1};
    pc::prepare_save(target);
    pc::rank_writer writer(target, 0);
    for (auto const& name : parameters()) {
      auto const values = test::golden_tensor<double>(file_, "param/" + name);
      writer.add<double>(name, file_.at("param/" + name).extents, 0, values);
    }
    pc::commit(target, {writer.finish()},
               R"({"batches": 0, "epoch": 0, "batch_in_epoch": 0, "tokens": 0})");
  }

  pc::safetensors_file file_;
  test::temporary_folder folder_;
  std::map<std::string, std::string> runs_;
};

/// Checks that losses, gradient norms and parameters differ from the expected ones by at most
/// `bound` times the largest loss, norm and parameter.
void check_close(outcome const& got, outcome const& expected, double bound) {
  CHECK(largest_difference(got.loss, expected.loss) <= bound * largest(expected.loss));
  CHECK(largest_difference(got.gradient_norm, expected.gradient_norm) <=
        bound * largest(expected.gradient_norm));
  double scale = 0, max_difference = 0;
  for (auto const& [name, values] : expected.parameters) {
    scale = std::max(scale, largest(values));
    double const difference = largest_difference(got.parameters.at(name), values);
    if (!(difference <= max_difference)) max_difference = difference;
  }
  CHECK(max_difference <= bound * scale);
}

/// Calls f(golden, run) for every run of both forms.
template <class F>
void for_each_run(F&& f) {
  for (std::string const form : {"a", "b"}) {
    CAPTURE(form);
    golden_training const golden(form);
    REQUIRE(golden.runs().size() == 3);
    for (auto const& entry : golden.runs()) {
      auto const& [run, config] = entry;
      CAPTURE(entry.first);
      f(golden, run);
    }
  }
}

TEST_CASE("golden training: fp64 losses, gradient norms and parameters are PyTorch's to 1e-10") {
  for_each_run([](golden_training const& golden, std::string const& run) {
    auto const expected = golden.expected(run);
    REQUIRE(expected.loss.size() == 24);
    check_close(golden.train<double>(run), expected, 1e-10);
  });
}

TEST_CASE("golden training: fp64 runs on several ranks are PyTorch's to 1e-10") {
  tiny_run::grid const layouts[] = {
      {.zero_stage = 3, .data = 2, .parallelism = {.tensor = 2, .sequence_parallel = true}},
      {.zero_stage = 1, .data = 2, .parallelism = {.context = 2, .pipeline = 2}}};
  for_each_run([&](golden_training const& golden, std::string const& run) {
    for (auto const& layout : layouts) {
      CAPTURE(layout.zero_stage);
      check_close(golden.train<double>(run, layout), golden.expected(run), 1e-10);
    }
  });
}

// A rounding to bf16 changes a number by a relative δ of at most u = 2^-9, about evenly spread. To
// first order the k-th rounding of a run moves the run's result by c_k δ_k, so that the root mean
// square distance from the exact run is sqrt(Σ c_k²) u / √3. PyTorch's bf16 run of the same
// training rounds where the trainer does: weights, activations between operations, their gradients,
// logits; and also where the trainer does not (attention's scores and probabilities, gradients of
// weights). The trainer's distance is therefore expected to be no larger than PyTorch's, and both
// are random draws. Parameters are thousands of numbers, whose root mean square is near its
// expectation; it stays below twice PyTorch's even if the trainer rounded in four times as many
// places. The 24 losses, or norms, are those of 6 different batches, which are at least 6
// independent numbers: of two such draws one is more than 3 times the other in less than one of 100
// pairs, F(6, 6) > 9.
TEST_CASE("golden training: bf16 is as far from PyTorch's fp64 as PyTorch's bf16 is") {
  for_each_run([](golden_training const& golden, std::string const& run) {
    auto const expected = golden.expected(run);
    auto const reference_distances = golden.bf16_distances(run);
    auto const got = golden.train<parallel::bf16>(run);
    double parameters = 0;
    for (auto const& [name, values] : expected.parameters)
      parameters += squared_distance(got.parameters.at(name), values);
    CHECK(std::sqrt(squared_distance(got.loss, expected.loss)) <= 3 * reference_distances.at(0));
    CHECK(std::sqrt(squared_distance(got.gradient_norm, expected.gradient_norm)) <=
          3 * reference_distances.at(1));
    CHECK(std::sqrt(parameters) <= 2 * reference_distances.at(2));
    CHECK(std::sqrt(parameters) >= reference_distances.at(2) / 2);  // the run does round to bf16
  });
}

}  // namespace
}  // namespace trainer_golden_test
