// registered_memory: memory that a communicator is told of once, since it will be exchanged often.
//
// A network or a switch can then read and write it where it lies, without a copy in between. Who
// makes the memory says so (register_memory); a communicator that has no use for it ignores that.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <utility>

#include <parallel/comm/concepts.hpp>
#include <parallel/device/buffer.hpp>

namespace parallel {

/// Memory stays registered, and is not freed, while a copy of this is there; empty: it is not
/// registered.
using registered_memory = std::shared_ptr<void>;

/// `register_memory(memory)`: the same on all ranks of the communicator, in one order, before the
/// memory is exchanged.
template <class C>
concept registers_memory = communicator<C> && requires(C c, buffer<std::byte> const& memory) {
  { c.register_memory(memory) } -> std::same_as<registered_memory>;
};

/// Registers all of `memory` with `comm`, if that registers any. Ranks of `comm` do so alike: an
/// exchange of registered memory is one on every rank. Throws `error` when the communicator
/// refuses.
template <communicator Comm, class T>
[[nodiscard]] registered_memory register_memory(Comm& comm, buffer<T> const& memory) {
  if constexpr (registers_memory<Comm>)
    if (!memory.empty())
      return comm.register_memory(
          {memory.owner(), reinterpret_cast<std::byte*>(memory.data()), memory.size() * sizeof(T)});
  return {};
}

}  // namespace parallel
