// tiling: checks that the slices of a checkpoint tile its tensors, every element once.
//
// Nothing is enumerated by element or row, since a manifest may claim any number: flat ranges are
// compared in their order; where some slices are columns of rows, all become rectangles of the
// matrix of the tensor's rows (a flat range up to three), and a sweep over the rows compares those
// that are adjacent. O(n log n) for n slices.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <queue>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/checkpoint/format/slice.hpp>

namespace parallel::checkpoint {

/// The number of elements of a tensor's row: the product of all but the first extent.
[[nodiscard]] inline index row_size(sliced_tensor const& tensor) {
  if (tensor.extents.size() < 2) return tensor.size();
  return tensor.extents[0] == 0 ? 0 : tensor.size() / tensor.extents[0];
}

namespace detail {

[[nodiscard]] inline std::string range_text(slice_record const& slice) {
  return slice.run == 0 ? concat("[", slice.begin, ", ", slice.end, ")")
                        : concat(slice.run, " of every ", slice.stride, " in [", slice.begin, ", ",
                                 slice.end, ")");
}

/// Throws unless one slice lies within its tensor and its file.
inline void check_slice(slice_record const& slice, sliced_tensor const& tensor,
                        std::map<std::string, std::uint64_t> const& files,
                        std::string const& tensor_location) {
  auto const size = tensor.size();
  require(slice.begin <= slice.end && slice.end <= size, tensor_location, ": slice ",
          range_text(slice), " does not lie within its ", size, " elements");
  if (slice.run > 0) {
    auto const width = row_size(tensor);
    require(slice.stride == width, tensor_location, ": slice ", range_text(slice),
            ": its stride must be the ", width, " elements of a row");
    require(slice.end - slice.begin >= slice.run &&
                (slice.end - slice.begin - slice.run) % width == 0 &&
                slice.begin % width + slice.run <= width,
            tensor_location, ": slice ", range_text(slice),
            " does not end with one of its runs, or these do "
            "not lie within rows of ",
            width);
  }
  require(slice.bytes == static_cast<std::uint64_t>(slice.count()) * size_of(tensor.type),
          tensor_location, ": slice ", range_text(slice), " of ", to_string(tensor.type),
          " cannot have ", slice.bytes, " bytes");
  auto const file = files.find(slice.file);
  require(file != files.end(), tensor_location, ": slice ", range_text(slice), " is in a file \"",
          slice.file, "\" that is not listed");
  require(slice.offset <= file->second && slice.bytes <= file->second - slice.offset,
          tensor_location, ": slice ", range_text(slice), " lies beyond the ", file->second,
          " bytes of ", slice.file);
}

/// Checks flat ranges in their order.
inline void check_ranges(sliced_tensor const& tensor, std::string const& tensor_location) {
  index position = 0;
  auto const require_adjacent = [&](index begin) {
    require(begin == position, tensor_location, ": elements ", std::min(position, begin), " to ",
            std::max(position, begin), " are ", begin < position ? "in two slices" : "in no slice",
            " (every element must be saved by exactly one rank)");
  };
  for (auto const& slice : tensor.slices) {
    require_adjacent(slice.begin);
    position = slice.end;
  }
  require_adjacent(tensor.size());
}

/// Some columns of some rows of the matrix of a tensor's rows.
struct rectangle {
  index row, rows, column, columns;
};

inline void add_rectangles(std::vector<rectangle>& out, slice_record const& slice, index width) {
  if (slice.run > 0) {
    out.push_back({slice.begin / width, slice.rows(), slice.begin % width, slice.run});
    return;
  }
  for (index element = slice.begin; element < slice.end;) {
    index const column = element % width;
    bool const whole = column == 0 && slice.end - element >= width;
    index const rows = whole ? (slice.end - element) / width : 1;
    index const columns = whole ? width : std::min(width - column, slice.end - element);
    out.push_back({element / width, rows, column, columns});
    element += rows * columns;
  }
}

/// Checks rectangles: if they do not overlap and have the tensor's number of elements, they tile
/// it.
inline void check_rectangles(sliced_tensor const& tensor, std::string const& tensor_location) {
  std::vector<rectangle> rectangles;
  index const width = row_size(tensor);
  for (auto const& slice : tensor.slices) add_rectangles(rectangles, slice, width);
  std::ranges::sort(rectangles, [](rectangle const& a, rectangle const& b) {
    return std::pair(a.row, a.column) < std::pair(b.row, b.column);
  });
  std::map<index, index> active;           // columns of the row: begin -> end
  using ending = std::pair<index, index>;  // row after the last, first column
  std::priority_queue<ending, std::vector<ending>, std::greater<>> endings;
  index left = tensor.size();
  for (auto const& r : rectangles) {
    for (; !endings.empty() && endings.top().first <= r.row; endings.pop())
      active.erase(endings.top().second);
    auto const next = active.lower_bound(r.column);
    bool const overlaps = (next != active.end() && next->first < r.column + r.columns) ||
                          (next != active.begin() && std::prev(next)->second > r.column);
    require(!overlaps, tensor_location, ": elements of row ", r.row, " from column ", r.column,
            " on are in two slices (every element must be saved by exactly one rank)");
    active.emplace(r.column, r.column + r.columns);
    endings.emplace(r.row + r.rows, r.column);
    left -= r.rows * r.columns;  // never below 0: nothing overlaps, and all lies within the tensor
  }
  require(left == 0, tensor_location, ": ", left,
          " elements are in no slice (every element must be saved by exactly one rank)");
}

}  // namespace detail

/// Sorts each tensor's slices and checks that they tile it: no hole, no overlap, bytes that fit and
/// lie within their file.
inline void check_tiling(slice_set& set, std::string_view location) {
  for (auto& [name, tensor] : set.tensors) {
    auto const tensor_location = concat(location, ": tensor \"", name, "\"");
    std::sort(tensor.slices.begin(), tensor.slices.end(), [](auto const& a, auto const& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    for (auto const& slice : tensor.slices)
      detail::check_slice(slice, tensor, set.files, tensor_location);
    if (std::ranges::any_of(tensor.slices, [](auto const& slice) { return slice.run > 0; }))
      detail::check_rectangles(tensor, tensor_location);
    else
      detail::check_ranges(tensor, tensor_location);
  }
}

}  // namespace parallel::checkpoint
