// gloo::communicator: ranks are processes that gloo connects over TCP; no MPI is needed.
//
// gloo carries messages only; message_communicator makes the collectives of them. Host memory only.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <parallel/comm/concepts.hpp>
#include <parallel/comm/gloo/batch.hpp>
#include <parallel/comm/gloo/world.hpp>
#include <parallel/comm/message_communicator.hpp>

namespace parallel::gloo {

namespace detail {

/// The world as a message_network.
class network final : public world {
 public:
  using world::world;

  [[nodiscard]] int rank() const { return options().rank; }
  [[nodiscard]] int size() const { return options().ranks; }
  [[nodiscard]] std::size_t piece_bytes() const { return options().piece_bytes; }
  [[nodiscard]] batch begin(message_operation const& operation) { return {*this, operation}; }
  [[nodiscard]] std::vector<signature> exchange(message_operation const& operation) {
    return exchange_signatures(*this, operation);
  }
};

}  // namespace detail

class communicator : public message_communicator<detail::network> {
  using base = message_communicator<detail::network>;

 public:
  /// All ranks of the options, which contain this process's rank. Blocks until all ranks have
  /// arrived.
  explicit communicator(communicator_options options)
      : base(std::make_shared<detail::network>(std::move(options))) {}

  /// See `has_split`; no rank waits if all colors are known.
  [[nodiscard]] communicator split(coloring const& rank_colors, std::string name = {}) {
    return communicator(base::split(rank_colors, std::move(name)));
  }

 private:
  explicit communicator(base part) : base(std::move(part)) {}
};

static_assert(has_collectives<communicator, float> && has_submit<communicator> &&
              has_split<communicator>);

}  // namespace parallel::gloo
