// Memory is registered with communicators that can register it, also through decorators.
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/checked.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/comm/registered_memory.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>

namespace registered_memory_test {

using namespace parallel;

using spans = std::vector<std::pair<void const*, std::size_t>>;

/// Records the memory that is registered.
class noting_communicator
    : public forwarding<noting_communicator, threads::communicator, host::stream> {
 public:
  noting_communicator(threads::communicator inner, std::shared_ptr<spans> live)
      : forwarding(std::move(inner)), live_(std::move(live)) {}

  request submit(host::stream& s, operation const& op) { return inner_.submit(s, op); }
  [[nodiscard]] signature_exchange open_exchange(host::stream const* stream = nullptr) {
    return inner_.open_exchange(stream);
  }
  [[nodiscard]] noting_communicator split(coloring const& colors, std::string name = {}) {
    return {inner_.split(colors, std::move(name)), live_};
  }
  [[nodiscard]] registered_memory register_memory(buffer<std::byte> const& memory) {
    live_->emplace_back(memory.data(), memory.size());
    return {memory.data(), [live = live_, owner = memory.owner()](void*) { live->pop_back(); }};
  }

 private:
  std::shared_ptr<spans> live_;
};

static_assert(registers_memory<noting_communicator> && registers_memory<any_communicator>);
static_assert(!registers_memory<threads::communicator>);

TEST_CASE("registered_memory: all bytes are registered until the last copy is released") {
  threads::run(1, [](threads::communicator& comm) {
    auto const live = std::make_shared<spans>();
    noting_communicator noting(std::move(comm), live);
    auto x = host::device().allocate<double>(6);
    std::weak_ptr<void> const memory = x.owner();
    auto first = register_memory(noting, x);
    auto const* const data = x.data();
    auto second = std::exchange(first, {});
    CHECK(*live == spans{{data, 48}});
    x = {};
    CHECK(!memory.expired());
    second.reset();
    CHECK(live->empty());
    CHECK(memory.expired());
    CHECK(register_memory(noting, buffer<float>()) == nullptr);
  });
}

TEST_CASE("registered_memory: decorators and erasure pass registrations on, in subgroups too") {
  threads::run(1, [](threads::communicator& comm) {
    auto const live = std::make_shared<spans>();
    any_communicator erased(recorded(checked(noting_communicator(std::move(comm), live)),
                                     std::make_shared<flight_recorder>()));
    auto const x = host::device().allocate<float>(4);
    auto group = erased.split(0, "shard");
    auto const registration = register_memory(erased, x),
               group_registration = register_memory(group, x);
    CHECK(*live == spans{{x.data(), 16}, {x.data(), 16}});
  });
}

TEST_CASE("registered_memory: a communicator that registers nothing ignores requests") {
  threads::run(1, [](threads::communicator& comm) {
    auto const x = host::device().allocate<float>(4);
    CHECK(register_memory(comm, x) == nullptr);
    any_communicator erased(std::move(comm));
    CHECK(register_memory(erased, x) == nullptr);
  });
}

}  // namespace registered_memory_test
