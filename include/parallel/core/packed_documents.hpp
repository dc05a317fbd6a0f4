// packed_documents: the beginnings of the documents that are packed into sequences.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include <parallel/core/tensor.hpp>

namespace parallel {

/// For each token, the position in its sequence at which its document begins. It also holds the
/// number of documents, if its creator has counted them: the host cannot read it from memory of a
/// device. If they are counted, the first token of every document is its own beginning. The object
/// is a view and copies nothing.
class packed_documents : public std::span<std::int32_t const> {
 public:
  constexpr packed_documents() = default;
  template <std::convertible_to<std::span<std::int32_t const>> Begins>
  constexpr packed_documents(Begins const& begins,  // NOLINT(google-explicit-constructor)
                             index count = 0)
      : std::span<std::int32_t const>(begins), count_(count) {}

  /// The number of documents in all sequences together; 0: unknown.
  [[nodiscard]] constexpr index count() const { return count_; }

 private:
  index count_ = 0;
};

}  // namespace parallel
