// Whoever stands before a communicator has its ranks, its name and its abort.
#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <parallel/comm/forwarding.hpp>

namespace forwarding_test {

struct end {
  [[nodiscard]] int rank() const { return 1; }
  [[nodiscard]] int size() const { return 3; }
  [[nodiscard]] int world_rank(int rank) const { return 10 + rank; }
  [[nodiscard]] std::string_view name() const { return "tensor"; }
  void abort(std::string const& reason) { *told = reason; }
  std::shared_ptr<std::string> told = std::make_shared<std::string>();
};

template <class Stored>
struct before : parallel::forwarding<before<Stored>, Stored, parallel::host::stream> {
  explicit before(Stored inner)
      : parallel::forwarding<before<Stored>, Stored, parallel::host::stream>(std::move(inner)) {}
};

template <class Stored>
void check(Stored inner, std::string const& told) {
  before<Stored> of(std::move(inner));
  CHECK(of.rank() == 1);
  CHECK(of.size() == 3);
  CHECK(of.world_rank(2) == 12);
  CHECK(of.name() == "tensor");
  of.abort("the disk is full");
  CHECK(told == "the disk is full");
}

TEST_CASE("held, pointed to or shared") {
  end held;
  check(held, *held.told);
  end borrowed;
  check(&borrowed, *borrowed.told);
  auto const shared = std::make_shared<end>();
  check(shared, *shared->told);
}

}  // namespace forwarding_test
