// packed_documents: where the documents begin that are packed into sequences.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include <parallel/core/tensor.hpp>

namespace parallel {

/// For each token the position in its sequence at which its document begins, and how many documents
/// there are, if whoever made them has counted: what a device reads the host cannot look into.
/// Copies nothing. Where they are counted, every document's first token is its own beginning.
class packed_documents : public std::span<std::int32_t const> {
 public:
  constexpr packed_documents() = default;
  template <std::convertible_to<std::span<std::int32_t const>> Begins>
  constexpr packed_documents(Begins const& begins,  // NOLINT(google-explicit-constructor)
                             index count = 0)
      : std::span<std::int32_t const>(begins), count_(count) {}

  /// Of all sequences together; 0: not known.
  [[nodiscard]] constexpr index count() const { return count_; }

 private:
  index count_ = 0;
};

}  // namespace parallel
