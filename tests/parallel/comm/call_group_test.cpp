// A group of collectives is one call of its ranks; what it refuses.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include <parallel/comm/call_group.hpp>
#include <parallel/comm/checked.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/comm/threads/run.hpp>

#include "parallel/support/files.hpp"

namespace call_group_test {

using namespace parallel;

/// Counts the calls of its inner communicator.
class counting_communicator : public collectives<counting_communicator> {
 public:
  counting_communicator(threads::communicator inner, int& calls)
      : inner_(std::move(inner)), calls_(calls) {}
  [[nodiscard]] int rank() const { return inner_.rank(); }
  [[nodiscard]] int size() const { return inner_.size(); }
  void abort(std::string const& reason) { inner_.abort(reason); }
  request submit(host::stream& s, operation const& op) {
    ++calls_;
    return inner_.submit(s, op);
  }
  [[nodiscard]] signature_exchange open_exchange(host::stream const* stream = nullptr) {
    return inner_.open_exchange(stream);
  }

 private:
  threads::communicator inner_;
  int& calls_;
};

TEST_CASE("call_group: a group of one or more collectives is one call") {
  threads::run(3, [](threads::communicator& comm) {
    int call_count = 0;
    counting_communicator counting(std::move(comm), call_count);
    call_group calls(counting);
    host::stream s;
    std::vector<int> x(4, 1), y(5, 2);
    calls.all_reduce(s, std::span(x), reduction::sum).wait();
    calls.all_reduce(s, std::span(y), reduction::sum).wait();
    CHECK(call_count == 0);
    calls.end(s).wait();
    CHECK(call_count == 1);
    CHECK(x == std::vector(4, 3));
    CHECK(y == std::vector(5, 6));
    calls.all_reduce(s, std::span(x), reduction::sum).wait();
    calls.end(s).wait();
    CHECK(call_count == 2);
    CHECK(x == std::vector(4, 9));
  });
}

TEST_CASE("call_group: the members are recorded as calls, each with its reduction") {
  threads::run(3, [](threads::communicator& comm) {
    auto const recorder = std::make_shared<flight_recorder>();
    recorded recorded_comm(std::move(comm), recorder);
    call_group calls(recorded_comm);
    host::stream s;
    std::vector<float> x(6, 1), y(3, 1), z(3);
    calls.all_reduce(s, std::span(x), reduction::tree_sum).wait();
    calls.all_gather(s, std::span(z), std::span<float const>(y).first(1)).wait();
    calls.end(s).wait();
    s.synchronize();
    auto const totals = recorder->totals();
    CHECK(totals.at({"", operation_kind::all_reduce}).sent == 2 * 24 * 2 / 3);
    CHECK(totals.at({"", operation_kind::all_gather}).sent == 12 * 2 / 3);
    CHECK(totals.size() == 2);
    auto const recorded_calls = recorder->calls();
    REQUIRE(recorded_calls.size() == 2);
    CHECK(recorded_calls[0].call_signature.combine == reduction::tree_sum);
    for (auto const& call : recorded_calls) CHECK(call.state == flight_recorder::state::completed);
  });
}

TEST_CASE("call_group: ranks whose groups differ get an error, with and without checked") {
  auto const message_with = [](auto decorate) {
    return test::message_of([&] {
      threads::run(2, [&](threads::communicator& comm) {
        auto decorated = decorate(std::move(comm));
        call_group calls(decorated);
        host::stream s;
        std::vector<int> x(4), y(4);
        bool const is_first = decorated.rank() == 0;
        calls.all_reduce(s, std::span(x), is_first ? reduction::sum : reduction::max).wait();
        calls.all_reduce(s, std::span(y), is_first ? reduction::max : reduction::sum).wait();
        calls.end(s).wait();
      });
    });
  };
  std::string const expected =
      "ranks disagree in parts of a group (call 0 of this communicator): rank "
      "0: group of collectives of 32 bytes at call_group_test.cpp:";
  CHECK(test::contains(message_with([](threads::communicator comm) { return comm; }), expected));
  CHECK(test::contains(
      message_with([](threads::communicator comm) { return checked(std::move(comm)); }), expected));
}

TEST_CASE("call_group: messages are refused") {
  threads::run(2, [](threads::communicator& comm) {
    call_group calls(comm);
    host::stream s;
    int x = 0;
    CHECK_THROWS_WITH_AS(static_cast<void>(calls.send(s, std::span(&x, 1), 1 - comm.rank())),
                         doctest::Contains("a send cannot be part of a group"), error);
  });
}

}  // namespace call_group_test
