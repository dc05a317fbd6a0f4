// The records that a communicator makes of a call and of the members of a group.
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/flight/flight_recorder.hpp>
#include <parallel/comm/threads/run.hpp>

namespace flight_recorder_test {

using namespace parallel;

TEST_CASE("flight recorder: a call is recorded with its axis, its sent bytes and its state") {
  threads::run(1, [](threads::communicator& comm) {
    auto const recorder = std::make_shared<flight_recorder>();
    operation op{.kind = operation_kind::all_gather, .type = dtype::f32, .count = 5};
    call_notes const notes(recorder, comm, "shard", 7, op);
    CHECK(!notes.empty());
    *op.sent += 3;
    REQUIRE(recorder->calls().size() == 1);
    auto const state = [&] { return recorder->calls().front().state; };
    CHECK(state() == call_state::waiting);
    notes.set_state(call_state::running);
    CHECK(state() == call_state::running);
    auto const call = recorder->calls().front();
    CHECK(call.group == 7);
    CHECK(call.call_signature.axis_name() == "shard");
    CHECK(call.call_signature.count == 5);
    auto const total = recorder->totals().at({"shard", operation_kind::all_gather});
    CHECK(total.payload == 20);
    CHECK(total.sent == 3);
  });
}

TEST_CASE("flight recorder: members of a group are calls that change state together") {
  threads::run(1, [](threads::communicator& comm) {
    auto const recorder = std::make_shared<flight_recorder>();
    operation const member{.kind = operation_kind::all_reduce, .type = dtype::f32, .count = 2};
    operation op{.kind = operation_kind::group,
                 .members = std::make_shared<std::vector<operation> const>(2, member)};
    call_notes const notes(recorder, comm, "", 0, op);
    notes.set_state(call_state::completed);
    auto const calls = recorder->calls();
    REQUIRE(calls.size() == 2);
    for (std::uint64_t i = 0; i < 2; ++i) {
      CHECK(calls[i].state == call_state::completed);
      CHECK(calls[i].call_signature.sequence == i);
      CHECK((*op.members)[i].sent != nullptr);
    }
    call_notes const empty_notes;
    CHECK(empty_notes.empty());
    empty_notes.set_state(call_state::completed);
  });
}

TEST_CASE(
    "flight recorder: time in calls is the time in which at least one runs, dropped ones too") {
  using namespace std::chrono_literals;
  using enum parallel::call_state;
  parallel::flight_recorder recorder(1);
  parallel::signature const call_signature;
  auto const first = recorder.record_enqueued(call_signature, 8).number;
  auto const second = recorder.record_enqueued(call_signature, 8).number;  // replaces the first one
  std::this_thread::sleep_for(20ms);
  CHECK(recorder.time_in_calls() == 0ns);  // nothing has run
  auto const begin = std::chrono::steady_clock::now();
  recorder.set_state(first, running);
  std::this_thread::sleep_for(20ms);
  recorder.set_state(second, running);
  std::this_thread::sleep_for(20ms);
  recorder.set_state(first, completed);
  CHECK(recorder.time_in_calls() == 0ns);
  std::this_thread::sleep_for(20ms);
  recorder.set_state(second, completed);
  auto const elapsed = std::chrono::steady_clock::now() - begin;
  CHECK(recorder.time_in_calls() > 50ms);
  CHECK(recorder.time_in_calls() < elapsed + 10ms);
  auto const time_before = recorder.time_in_calls();
  recorder.set_state(second, completed);  // as an aborted call does
  CHECK(recorder.time_in_calls() == time_before);
}

}  // namespace flight_recorder_test
