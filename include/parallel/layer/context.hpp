// context: what a layer meets besides its parameters and its input.
#pragma once

#include <cstdint>
#include <span>

#include <parallel/core/philox.hpp>
#include <parallel/device/arena.hpp>

namespace parallel {

/// Whether a pass will be followed by a backward pass (dropout is on, activations are kept).
enum class pass : std::uint8_t { training, inference };

/// The place of a microbatch in the run. Random numbers are counted by global sequence and step, so
/// they do not depend on which rank or microbatch a sequence falls to.
struct position {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint64_t first_sequence = 0;  // index of the microbatch's first sequence in its global batch
};

template <class Stream>
struct context {
  Stream& stream;
  arena& memory;  // results of a layer are allocated here; the schedule releases them
  pass mode = pass::training;
  position where = {};
  index sequence = 1;  // rows of one sequence: row r is at position r % sequence
  // [rows]: the position at which a row's document begins; empty: each sequence is one document.
  // Lives as long as the microbatch.
  std::span<std::int32_t const> document_begins = {};
  // Nothing has been added to the gradients yet: parameters with `replaces_gradient` are not zeroed
  // but must be replaced. It spares reading and clearing them.
  bool fresh_gradients = false;

  /// Uninitialised elements that live until the schedule releases the arena.
  template <class T, std::size_t N>
  [[nodiscard]] tensor_view<T, N> allocate(shape<N> extents) {
    return memory.allocate<T, N>(extents);
  }

  /// Index of row 0 of this microbatch among the rows of the global batch.
  [[nodiscard]] std::uint64_t first_row() const {
    return where.first_sequence * static_cast<std::uint64_t>(sequence);
  }

  /// Random numbers of one operation ("transformer.blocks.3.resid_dropout/0") in this step.
  [[nodiscard]] philox random(std::uint32_t operation) const {
    return {where.seed, operation, where.step};
  }
};

}  // namespace parallel
