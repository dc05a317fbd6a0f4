// Reading a safetensors file: the list of its tensors, and any range of one's elements.
//
// The header is read and checked once; tensors are read by positioned reads of just the bytes asked
// for, so a file larger than memory costs only its header.
#pragma once

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <parallel/checkpoint/format/safetensors_header.hpp>
#include <parallel/core/file.hpp>

namespace parallel::checkpoint {

namespace detail {

/// Elements read at once when they are converted.
inline constexpr std::size_t conversion_chunk = 1U << 16;

/// Reads `out.size()` elements from `begin` on in pieces through `read_bytes(begin, bytes)`, and
/// converts them; directly when the types agree.
template <real_element To, class ReadBytes>
void read_converted(element_type from, index begin, std::span<To> out, ReadBytes read_bytes) {
  if (from == element_type_of(dtype_of<To>)) {
    read_bytes(begin, std::as_writable_bytes(out));
    return;
  }
  std::vector<std::byte> bytes;
  while (!out.empty()) {
    auto const count = std::min(out.size(), conversion_chunk);
    bytes.resize(count * size_of(from));
    read_bytes(begin, std::span(bytes));
    convert(from, bytes, out.first(count));
    out = out.subspan(count);
    begin += static_cast<index>(count);
  }
}

}  // namespace detail

/// An open safetensors file. Reading is const and may be done by several threads at once.
class safetensors_file {
 public:
  /// Opens `path` and checks all of its header. Throws on anything out of order.
  explicit safetensors_file(std::filesystem::path path) : file_(std::move(path)) {
    std::byte length_bytes[8];
    file_.read(0, length_bytes, "the header's length");
    std::uint64_t length = 0;
    for (unsigned i = 0; i < 8; ++i)
      length |= std::to_integer<std::uint64_t>(length_bytes[i]) << (8 * i);
    require(length <= max_safetensors_header, name(), ": claims a header of ", length,
            " bytes, more than the ", max_safetensors_header,
            " the format allows; not a safetensors file?");
    require(length <= file_.size() - 8, name(), ": claims a header of ", length,
            " bytes, but has only ", file_.size(), "; not a safetensors file, or cut short");
    std::string text(static_cast<std::size_t>(length), '\0');
    file_.read(8, std::as_writable_bytes(std::span(text)), "the header");
    data_begin_ = 8 + length;
    header_ = parse_safetensors_header(text, file_.size() - data_begin_, name());
    for (std::size_t i = 0; i < header_.tensors.size(); ++i)
      by_name_.emplace(header_.tensors[i].name, i);
  }

  [[nodiscard]] std::string const& name() const { return file_.name(); }
  /// All tensors, in the order of their bytes; also those of unknown element types.
  [[nodiscard]] std::vector<tensor_entry> const& tensors() const { return header_.tensors; }
  [[nodiscard]] tensor_metadata const& metadata() const { return header_.metadata; }
  /// The position in the file at which the tensors' bytes begin.
  [[nodiscard]] std::uint64_t data_begin() const { return data_begin_; }

  /// The tensor of this name, or null.
  [[nodiscard]] tensor_entry const* find(std::string const& tensor) const {
    auto const found = by_name_.find(tensor);
    return found == by_name_.end() ? nullptr : &header_.tensors[found->second];
  }

  /// The tensor of this name; throws when there is none.
  [[nodiscard]] tensor_entry const& at(std::string const& tensor) const {
    auto const* entry = find(tensor);
    require(entry != nullptr, name(), ": has no tensor \"", tensor, "\"");
    return *entry;
  }

  /// Reads elements [begin, end) of a tensor (row-major) as they are; `out` has exactly their
  /// bytes.
  void read_bytes(std::string const& tensor, index begin, index end,
                  std::span<std::byte> out) const {
    auto const& entry = at(tensor);
    require(entry.type != element_type::unknown, name(), ": tensor \"", tensor,
            "\" has elements of type ", entry.type_name, ", which cannot be read here");
    require(0 <= begin && begin <= end && end <= entry.size(), name(), ": tensor \"", tensor,
            "\" has ", entry.size(), " elements; [", begin, ", ", end, ") was asked for");
    auto const width = size_of(entry.type);
    require(out.size() == static_cast<std::size_t>(end - begin) * width, name(), ": tensor \"",
            tensor, "\": ", end - begin, " elements of ", width, " bytes do not fill ", out.size());
    file_.read(data_begin_ + entry.begin + static_cast<std::uint64_t>(begin) * width, out, tensor);
  }

  /// Reads `out.size()` elements from `begin` on, converted to float, double or bf16. Throws when
  /// the tensor's elements are not real numbers.
  template <real_element T>
  void read(std::string const& tensor, index begin, std::span<T> out) const {
    auto const type = at(tensor).type;
    require(is_real(type), name(), ": tensor \"", tensor, "\" has elements of type ",
            at(tensor).type_name, ", which are not converted to ", to_string(dtype_of<T>));
    auto const size = at(tensor).size();
    auto const count_out = static_cast<index>(out.size());
    require(0 <= begin && begin <= size && count_out <= size - begin, name(), ": tensor \"", tensor,
            "\" has ", size, " elements; ", count_out, " from ", begin, " on were asked for");
    detail::read_converted(type, begin, out, [&](index first, std::span<std::byte> bytes) {
      auto const count = static_cast<index>(bytes.size() / size_of(type));
      read_bytes(tensor, first, first + count, bytes);
    });
  }

 private:
  input_file file_;
  std::uint64_t data_begin_ = 0;
  safetensors_header header_;
  std::unordered_map<std::string, std::size_t> by_name_;
};

}  // namespace parallel::checkpoint
