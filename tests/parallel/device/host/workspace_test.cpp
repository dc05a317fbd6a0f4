#include <cstdint>

#include <doctest/doctest.h>

#include <parallel/device/host/stream.hpp>
#include <parallel/device/host/workspace.hpp>

namespace workspace_test {
namespace {

TEST_CASE("workspace: grows to the largest request and does not shrink") {
  parallel::host::workspace memory;
  CHECK(memory.size() == 0);
  auto* const small = memory.take(100);
  CHECK(reinterpret_cast<std::uintptr_t>(small) % parallel::host::workspace::alignment == 0);
  CHECK(memory.take(7) == small);
  CHECK(memory.size() == 100);
  auto* const large = memory.take(1000);
  CHECK(reinterpret_cast<std::uintptr_t>(large) % parallel::host::workspace::alignment == 0);
  CHECK(memory.size() == 1000);
  CHECK(memory.take(100) == large);
}

TEST_CASE("workspace: the tasks of a stream share the same memory in turn") {
  parallel::host::stream s;
  std::byte* first = nullptr;
  std::byte* second = nullptr;
  s.enqueue([&] { first = s.memory().take(64); });
  s.enqueue([&] { second = s.memory().take(64); });
  s.synchronize();
  CHECK(first != nullptr);
  CHECK(first == second);
}

}  // namespace
}  // namespace workspace_test
