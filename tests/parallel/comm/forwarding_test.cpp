// A forwarding decorator has its communicator's ranks, name and abort.
#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <parallel/comm/forwarding.hpp>

namespace forwarding_test {

struct inner_communicator {
  [[nodiscard]] int rank() const { return 1; }
  [[nodiscard]] int size() const { return 3; }
  [[nodiscard]] int world_rank(int rank) const { return 10 + rank; }
  [[nodiscard]] std::string_view name() const { return "tensor"; }
  void abort(std::string const& reason) { *abort_reason = reason; }
  std::shared_ptr<std::string> abort_reason = std::make_shared<std::string>();
};

template <class Stored>
struct decorator : parallel::forwarding<decorator<Stored>, Stored, parallel::host::stream> {
  explicit decorator(Stored inner)
      : parallel::forwarding<decorator<Stored>, Stored, parallel::host::stream>(std::move(inner)) {}
};

template <class Stored>
void check(Stored inner, std::string const& abort_reason) {
  decorator<Stored> decorated(std::move(inner));
  CHECK(decorated.rank() == 1);
  CHECK(decorated.size() == 3);
  CHECK(decorated.world_rank(2) == 12);
  CHECK(decorated.name() == "tensor");
  decorated.abort("the disk is full");
  CHECK(abort_reason == "the disk is full");
}

TEST_CASE("forwarding: a communicator may be stored, pointed to or shared") {
  inner_communicator stored;
  check(stored, *stored.abort_reason);
  inner_communicator borrowed;
  check(&borrowed, *borrowed.abort_reason);
  auto const shared = std::make_shared<inner_communicator>();
  check(shared, *shared->abort_reason);
}

}  // namespace forwarding_test
