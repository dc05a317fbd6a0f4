// scratch_pieces: a stream's scratch memory for one operation, in pieces.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <vector>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/attention/heads_view.hpp>
#include <parallel/ops/cuda/scratch.hpp>

namespace parallel::cuda {

/// The pieces are taken in the order in which their sizes were given.
class scratch_pieces {
 public:
  scratch_pieces(stream& s, std::initializer_list<std::size_t> bytes) {
    std::size_t total = 0;
    for (std::size_t const size : bytes) {
      offsets_.push_back(total);
      total += scratch_piece(size);
    }
    begin_ = s.scratch(total);
  }
  [[nodiscard]] void* next() { return begin_ + offsets_[taken_++]; }
  /// Takes the next piece, which becomes the memory of the view if it has none.
  [[nodiscard]] ops::heads_view<bf16> complete(ops::heads_view<bf16> view) {
    auto* const memory = static_cast<bf16*>(next());
    if (view.data == nullptr) view.data = memory;
    return view;
  }

 private:
  std::byte* begin_ = nullptr;
  std::vector<std::size_t> offsets_;
  std::size_t taken_ = 0;
};

}  // namespace parallel::cuda
