// input_fact: one property of what a process reads, such as a setting or the checksum of a tensor.
// Ranks that are separate processes compare theirs, so that they train one model on one data set.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpt {

struct input_fact {
  std::string input;          ///< the name of the input in messages, such as "the weights"
  std::string path = {};      ///< the input on this machine, for messages; may differ between ranks
  std::string property = {};  ///< a setting, or what has the checksum
  std::string value;
  bool is_optional = false;  ///< compared only if the other rank has this property, too

  friend bool operator==(input_fact const&, input_fact const&) = default;
};

/// The facts of several inputs.
using input_facts = std::vector<input_fact>;

/// How much of a large input is read for its checksum.
enum class checksum_extent : std::uint8_t { sampled, whole };

/// The bytes up to which an input's checksum is of all of it in either case.
inline constexpr std::uint64_t small_input_bytes = std::uint64_t{256} << 20;

/// 16 numbers below `size`, or all if there are not more, sorted, among them the first and the
/// last: where a large input is sampled. They depend on `size` and `name` alone.
[[nodiscard]] std::vector<std::uint64_t> sampled_places(std::uint64_t size, std::string_view name);

/// The checksum of a file, as the value of a fact. Throws if the file cannot be read.
[[nodiscard]] std::string file_checksum(std::filesystem::path const& file);

/// Facts as text for another process, and back.
[[nodiscard]] std::string to_text(input_facts const& facts);
/// The facts that a text of `to_text` holds.
[[nodiscard]] input_facts parse_input_facts(std::string_view text);

/// The first property, in the order of `found`, in which rank `rank` with `found` differs from rank
/// 0 with `expected`, as a clause; nothing if they agree. Equal properties are compared in order.
[[nodiscard]] std::optional<std::string> input_difference(input_facts const& expected,
                                                          input_facts const& found, int rank);

}  // namespace mpt
