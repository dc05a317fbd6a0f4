// torch_file reads the tensors of a file that torch.save wrote (pytorch_model.bin, Composer's .pt).
//
// Such a file is a zip file with a pickle, which is read without running any of its code
// (pickle.hpp), and a member of bytes for each storage, from which ranges are read without copying
// the whole. The tensors are those of the dictionary that the file holds, or of a Composer
// checkpoint's model, which includes its configuration.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/hf/pickle.hpp>
#include <mpt/hf/zip_archive.hpp>
#include <parallel/checkpoint/format/element_type.hpp>
#include <parallel/checkpoint/format/safetensors.hpp>

namespace mpt::hf {

using parallel::index;

class torch_file {
 public:
  /// The limit of the pickle's size; the tensors' bytes are outside the pickle.
  static constexpr std::uint64_t max_pickle_bytes = std::uint64_t{1} << 26;

  /// A tensor of the file: its type, shape and place.
  struct entry {
    parallel::checkpoint::element_type type = parallel::checkpoint::element_type::unknown;
    std::string type_name = {};  ///< "FloatStorage"
    std::vector<index> extents = {};
    zip_archive::member const* bytes = nullptr;
    index first_element = 0;  ///< the tensor's first element in the storage

    [[nodiscard]] index size() const;
  };

  /// Opens `path` and reads the descriptions of its tensors. Throws when the file has another form,
  /// is truncated, or its pickle names functions that tensors do not need.
  explicit torch_file(std::filesystem::path const& path);

  [[nodiscard]] std::string const& name() const;
  [[nodiscard]] std::map<std::string, entry> const& tensors() const { return entries_; }
  /// The configuration in a Composer checkpoint, in the form of config.json.
  [[nodiscard]] std::optional<nlohmann::json> const& config() const { return config_; }

  /// Reads `out.size()` elements of a tensor from `begin` on, converted.
  template <parallel::checkpoint::real_element T>
  void read(entry const& tensor, index begin, std::span<T> out) const {
    namespace pc = parallel::checkpoint;
    auto const size = tensor.size();
    parallel::require(pc::is_real(tensor.type), name(), ": a tensor of ", tensor.type_name,
                      " is not of real numbers");
    parallel::require(0 <= begin && begin <= size && std::ssize(out) <= size - begin, name(),
                      ": a tensor has ", size, " elements; ", out.size(), " from ", begin,
                      " on were asked for");
    pc::detail::read_converted(
        tensor.type, begin, out, [&](index position, std::span<std::byte> bytes) {
          zip_.read(*tensor.bytes,
                    static_cast<std::uint64_t>(tensor.first_element + position) *
                        pc::size_of(tensor.type),
                    bytes);
        });
  }

 private:
  using kind = pickle::kind;
  static constexpr std::string_view pickle_name = "data.pkl";
  static constexpr std::array<std::string_view, 5> adapter_config_path = {
      "state", "integrations", "huggingface", "model", "peft_config"};

  /// Returns `path`. Throws for a file of PyTorch before 1.6, which is a sequence of pickles, the
  /// first of which is a magic number.
  [[nodiscard]] static std::filesystem::path const& require_zip_form(
      std::filesystem::path const& path);

  [[nodiscard]] zip_archive::member const* find_pickle() const;

  [[nodiscard]] static parallel::checkpoint::element_type type_of(std::string_view storage);

  /// Reads the tensors of a dictionary, without the "model." at the front of Composer's names.
  void read_tensors(pickle const& content, pickle::id mapping, std::string const& prefix);

  [[nodiscard]] entry read_entry(pickle const& content, pickle::value const& value,
                                 std::string_view tensor, std::string const& prefix) const;

  [[nodiscard]] static std::vector<index> read_integers(pickle const& content, pickle::id tuple,
                                                        std::string const& location);

  void read_config(pickle const& content);

  [[nodiscard]] nlohmann::json to_json(pickle const& content, pickle::id value_id, int depth,
                                       std::size_t& value_budget) const;

  zip_archive zip_;
  std::map<std::string, entry> entries_;
  std::optional<nlohmann::json> config_;
};

}  // namespace mpt::hf
