// gguf_writer: writes a GGUF file (version 3), the form that llama.cpp and its relatives read.
//
// A file is metadata, fields of a name and a typed value; a table of tensors; and the tensors'
// elements, each tensor aligned to 32 bytes. All of it is little-endian. Fields and tensors are
// declared first; the elements may then be written in any order among tensors, each tensor's own in
// order, so that no more than the caller's piece is in memory. The file appears under its name only
// when it is complete. The format: ggml's docs/gguf.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include <parallel/checkpoint/format/element_type.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/tensor.hpp>

namespace mpt::hf {

/// The value of a field, one of the types that llama.cpp's fields have.
using gguf_value = std::variant<std::uint32_t, float, bool, std::string, std::vector<std::string>,
                                std::vector<std::int32_t>, std::vector<float>>;

/// A key of a GGUF file and its value.
struct gguf_field {
  std::string name;  ///< "general.architecture"
  gguf_value value;
};

/// A tensor about to be written. Its elements are row-major; the file names extents in the opposite
/// order, the fastest first.
struct gguf_tensor {
  std::string name;  ///< of at most 63 bytes
  parallel::checkpoint::element_type type = parallel::checkpoint::element_type::f32;
  std::vector<parallel::index> extents;  ///< one to four
};

/// The alignment of each tensor's elements in the file, in bytes.
inline constexpr std::uint64_t gguf_alignment = 32;

/// Whether a regular file begins as a GGUF file does.
[[nodiscard]] bool is_gguf_file(std::filesystem::path const& path);

/// A GGUF file being written. If it is destroyed before `finish`, it leaves nothing behind.
class gguf_writer {
 public:
  /// Writes everything but elements of `path` under a temporary name in the same folder. Throws for
  /// names that are used twice, and for types other than f32, f16 and bf16.
  gguf_writer(std::filesystem::path path, std::vector<gguf_field> const& fields,
              std::vector<gguf_tensor> tensors, parallel::action_hook on_action = {});
  gguf_writer(gguf_writer&&) = delete;
  ~gguf_writer();

  /// Appends the next elements of a tensor: whole ones, in the declared type.
  void append(std::string const& tensor, std::span<std::byte const> bytes);

  /// Checks that every tensor is complete, flushes, and gives the file its name.
  void finish();

 private:
  struct extent {
    std::uint64_t offset = 0;  // of the first element, from the beginning of all elements
    std::uint64_t bytes = 0;
    std::uint64_t written = 0;
  };

  [[nodiscard]] parallel::output_file open() const;
  void lay_out();

  std::filesystem::path path_;
  std::vector<gguf_tensor> tensors_;
  parallel::action_hook on_action_;
  std::unordered_map<std::string, extent> extents_;
  std::uint64_t data_bytes_ = 0;
  parallel::output_file file_;
  std::uint64_t data_begin_ = 0;
  bool is_finished_ = false;
};

}  // namespace mpt::hf
