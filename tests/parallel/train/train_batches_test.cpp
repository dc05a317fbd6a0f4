// The order of events in the loop of a training run.
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include <parallel/train/train_batches.hpp>

namespace train_batches_test {
namespace {

using parallel::index;

struct batch_result {
  bool is_updated = true;
  bool stop_asked = false;
  [[nodiscard]] bool updated() const { return is_updated; }
};

/// Records the calls of the loop; refuses some batches, and is asked to stop in one.
struct recording_run {
  std::set<index> refused = {};
  index asked_to_stop_in = -1;
  std::vector<std::string> calls = {};
  bool has_stopped = false;

  void record(char const* call, index batches) {
    calls.push_back(std::string(call) + " " + std::to_string(batches));
  }
  batch_result train_batch(index batch) {
    record("train", batch);
    return {.is_updated = !refused.contains(batch), .stop_asked = batch == asked_to_stop_in};
  }
  void after_update(index batches, batch_result) { record("updated", batches); }
  void after_refusal(index batches, batch_result) { record("refused", batches); }
  void stop(index batches) {
    record("stop", batches);
    has_stopped = true;
  }
  [[nodiscard]] bool is_stopped() const { return has_stopped; }
  void evaluate_if_due(index batches) { record("evaluate", batches); }
  void save_if_due(index batches) { record("save", batches); }
};

TEST_CASE("train_batches: each batch is trained, reported, evaluated and saved in this order") {
  recording_run run{.refused = {3}};
  CHECK(parallel::train::train_batches(run, 2, 4) == 4);
  CHECK(run.calls == std::vector<std::string>{"train 2", "updated 3", "evaluate 3", "save 3",
                                              "train 3", "refused 4", "evaluate 4", "save 4"});
}

TEST_CASE("train_batches: a run that is asked to stop saves and trains no further batch") {
  recording_run run{.asked_to_stop_in = 1};
  CHECK(parallel::train::train_batches(run, 1, 4) == 2);
  CHECK(run.calls == std::vector<std::string>{"train 1", "updated 2", "stop 2", "save 2"});
}

TEST_CASE("train_batches: a stop in the last batch is no stop, and a finished run trains nothing") {
  recording_run run{.asked_to_stop_in = 0};
  CHECK(parallel::train::train_batches(run, 0, 1) == 1);
  CHECK(run.calls == std::vector<std::string>{"train 0", "updated 1", "evaluate 1", "save 1"});
  run.calls.clear();
  CHECK(parallel::train::train_batches(run, 1, 1) == 1);
  CHECK(run.calls.empty());
}

}  // namespace
}  // namespace train_batches_test
