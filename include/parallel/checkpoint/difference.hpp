// Finds the differences of two checkpoints, tensor by tensor and bit by bit, whatever layouts wrote
// them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <parallel/checkpoint/reader.hpp>

namespace parallel::checkpoint {

/// A tensor in which two checkpoints differ.
struct tensor_difference {
  std::string tensor = {};
  std::string form = {};  ///< how the tensors themselves differ: absent, another shape; or empty
  index elements = 0;     ///< number of elements that differ in at least one bit
  index first = 0;        ///< the first such element, in row-major order
  /// The largest |a - b| where elements are real numbers; NaN: one of them is NaN.
  double largest = 0;
  double left = 0;  ///< the first pair, as numbers, where they are real
  double right = 0;
};

namespace detail {

/// Adds the differences of two pieces of a tensor, whose first element is `begin`.
inline void compare_piece(tensor_difference& out, element_type type, index begin,
                          std::span<std::byte const> left, std::span<std::byte const> right) {
  if (std::ranges::equal(left, right)) return;
  auto const width = size_of(type);
  for (std::size_t offset = 0; offset < left.size(); offset += width) {
    if (std::memcmp(left.data() + offset, right.data() + offset, width) == 0) continue;
    double a = 0;
    double b = 0;
    if (is_real(type)) {
      convert(type, left.subspan(offset, width), std::span(&a, 1));
      convert(type, right.subspan(offset, width), std::span(&b, 1));
    }
    if (out.elements++ == 0) {
      out.first = begin + static_cast<index>(offset / width);
      out.left = a;
      out.right = b;
    }
    auto const distance = std::abs(a - b);
    if (!(distance <= out.largest) && !std::isnan(out.largest)) out.largest = distance;
  }
}

}  // namespace detail

/// The tensors that differ, in the order of their names; empty: every bit is the same. Values are
/// read in pieces of `piece_bytes`, so memory does not grow with the checkpoints. Throws on what
/// cannot be read. Cost: reads both.
[[nodiscard]] inline std::vector<tensor_difference> differences(
    checkpoint_reader const& left, checkpoint_reader const& right,
    std::size_t piece_bytes = std::size_t{1} << 22) {
  std::vector<tensor_difference> differing;
  for (auto const& [name, tensor] : left.tensors()) {
    tensor_difference found{.tensor = name};
    if (!right.contains(name)) {
      found.form = "only in the first";
    } else if (auto const& other = right.at(name);
               other.type != tensor.type || other.extents != tensor.extents) {
      found.form =
          concat(to_string(tensor.type), " ", shape_text(tensor.extents), " in the first, ",
                 to_string(other.type), " ", shape_text(other.extents), " in the second");
    } else {
      auto const width = size_of(tensor.type);
      auto const step = static_cast<index>(std::max<std::size_t>(1, piece_bytes / width));
      std::vector<std::byte> a;
      std::vector<std::byte> b;
      for (index begin = 0; begin < tensor.size(); begin += step) {
        auto const bytes = static_cast<std::size_t>(std::min(step, tensor.size() - begin)) * width;
        a.resize(bytes);
        b.resize(bytes);
        left.read_bytes(name, begin, a);
        right.read_bytes(name, begin, b);
        detail::compare_piece(found, tensor.type, begin, a, b);
      }
    }
    if (!found.form.empty() || found.elements > 0) differing.push_back(std::move(found));
  }
  for (auto const& [name, tensor] : right.tensors())
    if (!left.contains(name)) differing.push_back({.tensor = name, .form = "only in the second"});
  std::ranges::sort(differing, {}, &tensor_difference::tensor);
  return differing;
}

}  // namespace parallel::checkpoint
