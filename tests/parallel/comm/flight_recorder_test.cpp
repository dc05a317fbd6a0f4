// What a communicator notes of a call, and of the parts of a group.
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/flight_recorder.hpp>
#include <parallel/comm/threads/run.hpp>

namespace flight_recorder_test {

using namespace parallel;

TEST_CASE("a call is noted with its axis, counts what it sends, and changes its state") {
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

TEST_CASE("the parts of a group are calls, and change together; nobody is told by default") {
  threads::run(1, [](threads::communicator& comm) {
    auto const recorder = std::make_shared<flight_recorder>();
    operation const part{.kind = operation_kind::all_reduce, .type = dtype::f32, .count = 2};
    operation op{.kind = operation_kind::group,
                 .members = std::make_shared<std::vector<operation> const>(2, part)};
    call_notes const notes(recorder, comm, "", 0, op);
    notes.set_state(call_state::completed);
    auto const calls = recorder->calls();
    REQUIRE(calls.size() == 2);
    for (std::uint64_t at = 0; at < 2; ++at) {
      CHECK(calls[at].state == call_state::completed);
      CHECK(calls[at].call_signature.sequence == at);
      CHECK((*op.members)[at].sent != nullptr);
    }
    call_notes const nobody;
    CHECK(nobody.empty());
    nobody.set_state(call_state::completed);
  });
}

TEST_CASE("the time in calls is that in which at least one runs, those that are forgotten too") {
  using namespace std::chrono_literals;
  using enum parallel::call_state;
  parallel::flight_recorder recorder(1);
  parallel::signature const what;
  auto const first = recorder.record_enqueued(what, 8).number;
  auto const second = recorder.record_enqueued(what, 8).number;  // takes the first one's place
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
  auto const most = std::chrono::steady_clock::now() - begin;
  CHECK(recorder.time_in_calls() > 50ms);
  CHECK(recorder.time_in_calls() < most + 10ms);
  auto const before = recorder.time_in_calls();
  recorder.set_state(second, completed);  // as of a call that was aborted
  CHECK(recorder.time_in_calls() == before);
}

}  // namespace flight_recorder_test
