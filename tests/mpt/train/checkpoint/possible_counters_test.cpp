// Counters that were changed in a manifest are refused, since they contradict other counters or the
// name of the checkpoint.
#include <string>

#include <doctest/doctest.h>

#include <mpt/train/checkpoint/possible_counters.hpp>

#include "mpt/data/scratch.hpp"

namespace possible_counters_test {

mpt::training_clock const clock{.samples_per_batch = 4,
                                .tokens_per_batch = 64,
                                .batches_per_epoch = 10,
                                .max_duration = {30, mpt::time_unit::batch}};

std::string problem(nlohmann::json const& state, std::string const& folder = "ep2-ba25") {
  return data_test::message_of([&] { mpt::require_possible_counters(state, clock, folder); });
}
nlohmann::json state_with(std::string const& key, nlohmann::json const& value) {
  auto state =
      nlohmann::json::parse(R"({"batches": 25, "epoch": 2, "batch_in_epoch": 5, "tokens": 1600})");
  state[key] = value;
  return state;
}

TEST_CASE("counters of a checkpoint: a run's counters are accepted, under any name of the folder") {
  mpt::require_possible_counters(state_with("tokens", 1600U), clock, "ep2-ba25");
  mpt::require_possible_counters(state_with("tokens", 3U), clock, "runs/mine");
  mpt::require_possible_counters(
      nlohmann::json::parse(R"({"batches": 0, "epoch": 0, "batch_in_epoch": 0, "tokens": 0})"),
      clock, "ep0-ba0");
}

TEST_CASE("counters of a checkpoint: negative, huge or missing ones are refused") {
  CHECK(
      problem(state_with("batches", -1)) ==
      "ep2-ba25: its manifest says batches = -1, which no run counts; it was changed: use another "
      "checkpoint");
  CHECK(
      problem(state_with("tokens", 18446744073709551615U))
          .starts_with("ep2-ba25: its manifest says tokens = 18446744073709551615, which no run"));
  CHECK(problem(state_with("epoch", "2")) == "ep2-ba25: its state lacks the number epoch");
}

TEST_CASE(
    "counters of a checkpoint: counters that contradict each other, or the name of its folder, are "
    "refused") {
  CHECK(
      problem(state_with("batches", 24U)) ==
      "ep2-ba25: its manifest says batches = 24 and epoch = 2, which its name contradicts; it was "
      "changed: use another checkpoint");
  CHECK(problem(state_with("batch_in_epoch", 15U)) ==
        "ep2-ba25: its manifest says batches = 25, epoch = 2 and batch_in_epoch = 15, but an epoch "
        "has 10 batches; it was changed: use another checkpoint");
  CHECK(
      problem(state_with("epoch", 3U), "mine").starts_with("mine: its manifest says batches = 25"));
  CHECK(problem(state_with("tokens", 1601U)) ==
        "ep2-ba25: its manifest says batches = 25 and tokens = 1601, but a batch has 64; it was "
        "changed: use another checkpoint");
}

TEST_CASE("counters of a checkpoint: a run that is already complete is no contradiction") {
  CHECK(problem(nlohmann::json::parse(
                    R"({"batches": 31, "epoch": 3, "batch_in_epoch": 1, "tokens": 0})"),
                "ep3-ba31") == "");
}

}  // namespace possible_counters_test
