// registered_memory: memory that is registered with a communicator because it is exchanged often.
//
// A network or a switch can then read and write it in place, without a copy. The code that
// allocates the memory registers it (register_memory); communicators without registration ignore
// that.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>

#include <parallel/comm/concepts.hpp>
#include <parallel/device/buffer.hpp>

namespace parallel {

/// The memory stays registered, and is not freed, while a copy of this handle exists; an empty
/// handle means that the memory is not registered.
using registered_memory = std::shared_ptr<void>;

/// `register_memory(memory)` is called on all ranks of the communicator, in the same order, before
/// the memory is exchanged.
template <class C>
concept registers_memory = communicator<C> && requires(C c, buffer<std::byte> const& memory) {
  { c.register_memory(memory) } -> std::same_as<registered_memory>;
};

/// Registers all of `memory` with `comm`, if `comm` registers memory. All ranks of `comm` must do
/// the same, since an exchange uses registered memory either on every rank or on none. Throws
/// `error` when the communicator refuses.
template <communicator Comm, class T>
[[nodiscard]] registered_memory register_memory(Comm& comm, buffer<T> const& memory) {
  if constexpr (registers_memory<Comm>)
    if (!memory.empty())
      return comm.register_memory(
          {memory.owner(), reinterpret_cast<std::byte*>(memory.data()), memory.size() * sizeof(T)});
  return {};
}

}  // namespace parallel
