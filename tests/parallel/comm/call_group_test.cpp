// What a group of collectives refuses, and that it is one meeting of its ranks.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include <parallel/comm/call_group.hpp>
#include <parallel/comm/checked.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/comm/tree_ordered.hpp>

#include "parallel/support/files.hpp"

namespace call_group_test {

using namespace parallel;

/// Counts what its inner communicator is given.
class counted : public collectives<counted> {
 public:
  counted(threads::communicator inner, int& calls) : inner_(std::move(inner)), calls_(calls) {}
  [[nodiscard]] int rank() const { return inner_.rank(); }
  [[nodiscard]] int size() const { return inner_.size(); }
  void abort(std::string const& reason) { inner_.abort(reason); }
  request submit(host::stream& s, operation const& op) {
    ++calls_;
    return inner_.submit(s, op);
  }
  [[nodiscard]] signature_exchange open_exchange(host::stream const* on = nullptr) {
    return inner_.open_exchange(on);
  }

 private:
  threads::communicator inner_;
  int& calls_;
};

TEST_CASE("a group is one call, and one collective needs none") {
  threads::run(3, [](threads::communicator& comm) {
    int made = 0;
    counted all(std::move(comm), made);
    call_group calls(all);
    host::stream s;
    std::vector<int> x(4, 1), y(5, 2);
    calls.all_reduce(s, std::span(x), reduction::sum).wait();
    calls.all_reduce(s, std::span(y), reduction::sum).wait();
    CHECK(made == 0);
    calls.end(s).wait();
    CHECK(made == 1);
    CHECK(x == std::vector(4, 3));
    CHECK(y == std::vector(5, 6));
    calls.all_reduce(s, std::span(x), reduction::sum).wait();
    calls.end(s).wait();
    CHECK(made == 2);
    CHECK(x == std::vector(4, 9));
  });
}

TEST_CASE("the parts of a group are recorded as calls, and summed by a tree where that is asked") {
  threads::run(3, [](threads::communicator& comm) {
    auto const recorder = std::make_shared<flight_recorder>();
    recorded noted(std::move(comm), recorder);
    tree_ordered all(std::move(noted));
    call_group calls(all);
    host::stream s;
    std::vector<float> x(6, 1), y(3, 1), z(3);
    calls.all_reduce(s, std::span(x), reduction::sum).wait();
    calls.all_gather(s, std::span(z), std::span<float const>(y).first(1)).wait();
    calls.end(s).wait();
    s.synchronize();
    auto const totals = recorder->totals();
    CHECK(totals.at({"", operation_kind::all_reduce}).sent == 2 * 24 * 2 / 3);
    CHECK(totals.at({"", operation_kind::all_gather}).sent == 12 * 2 / 3);
    CHECK(totals.size() == 2);
    auto const made = recorder->calls();
    REQUIRE(made.size() == 2);
    CHECK(made[0].call_signature.combine == reduction::tree_sum);
    for (auto const& one : made) CHECK(one.state == flight_recorder::state::completed);
  });
}

TEST_CASE("ranks whose groups differ are told, with and without a check before") {
  auto const differ = [](auto make) {
    return test::message_of([&] {
      threads::run(2, [&](threads::communicator& comm) {
        auto all = make(std::move(comm));
        call_group calls(all);
        host::stream s;
        std::vector<int> x(4), y(4);
        bool const first = all.rank() == 0;
        calls.all_reduce(s, std::span(x), first ? reduction::sum : reduction::max).wait();
        calls.all_reduce(s, std::span(y), first ? reduction::max : reduction::sum).wait();
        calls.end(s).wait();
      });
    });
  };
  std::string const told =
      "ranks disagree in parts of a group (call 0 of this communicator): rank "
      "0: group of collectives of 32 bytes at call_group_test.cpp:";
  CHECK(test::contains(differ([](threads::communicator comm) { return comm; }), told));
  CHECK(test::contains(differ([](threads::communicator comm) { return checked(std::move(comm)); }),
                       told));
}

TEST_CASE("messages are no part of a group") {
  threads::run(2, [](threads::communicator& comm) {
    call_group calls(comm);
    host::stream s;
    int x = 0;
    CHECK_THROWS_WITH_AS(static_cast<void>(calls.send(s, std::span(&x, 1), 1 - comm.rank())),
                         doctest::Contains("a send is no part of a group"), error);
  });
}

}  // namespace call_group_test
