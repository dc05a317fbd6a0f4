// forwarding: the functions that a decorator of a communicator takes over unchanged.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/registered_memory.hpp>

namespace parallel {

/// Base of a communicator `Derived` that enqueues on `Stream` and decorates another one. `Stored`
/// is the decorated communicator or a pointer to it.
template <class Derived, class Stored, class Stream>
class forwarding : public collectives<Derived, Stream> {
 public:
  [[nodiscard]] int rank() const { return get(inner_).rank(); }
  [[nodiscard]] int size() const { return get(inner_).size(); }
  [[nodiscard]] int world_rank(int rank) const { return get(inner_).world_rank(rank); }
  [[nodiscard]] std::string_view name() const { return get(inner_).name(); }
  void abort(std::string const& reason) { get(inner_).abort(reason); }
  /// See `tells_aborts`; nothing for a communicator that does not report aborts.
  [[nodiscard]] std::optional<std::string> abort_reason() {
    if constexpr (requires { get(inner_).abort_reason(); })
      return get(inner_).abort_reason();
    else
      return std::nullopt;
  }
  /// See `registers_memory`; nothing for a communicator that registers no memory.
  [[nodiscard]] registered_memory register_memory(buffer<std::byte> const& memory) {
    return parallel::register_memory(get(inner_), memory);
  }

 protected:
  explicit forwarding(Stored inner) : inner_(std::move(inner)) {}

  Stored inner_;

 private:
  template <class S>
  static auto& get(S& stored) {
    if constexpr (requires { *stored; })
      return *stored;
    else
      return stored;
  }
};

}  // namespace parallel
