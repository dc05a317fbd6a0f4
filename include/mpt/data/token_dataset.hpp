// Samples of token ids from an MDS set: the training data of a language model.
//
// The column holds an ndarray of any integer type (prepare writes "ndarray:int32"), or, in sets
// written by older LLM Foundry versions, raw bytes of a type that the set does not state
// (`raw_type` says which). The first S ids of a sample are used; a shorter sample is an error,
// since a set prepared for another length would otherwise train silently on other data.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <mpt/data/mds/mds_reader.hpp>
#include <parallel/core/tensor.hpp>

namespace mpt::data {

struct token_dataset_options {
  std::uint64_t sequence_length = 2048;
  std::string split{};
  std::string column = "tokens";
  mds_type raw_type = mds_type::int64;  ///< the ids' type in a `bytes` column (token_encoding_type)
  std::int64_t vocab_size = 0;          ///< ids must be below it; 0: below 2^31
  std::uint64_t cache_bytes = std::uint64_t{1} << 30;  ///< limit for decompressed shards
  cached_set remote{};                                 ///< as in mds_reader_options
};

class token_dataset {
 public:
  /// Opens the set in `folder`. Throws when it has no such column or the column cannot hold ids.
  explicit token_dataset(std::filesystem::path folder, token_dataset_options options);

  [[nodiscard]] std::uint64_t size() const { return reader_.size(); }
  [[nodiscard]] std::uint64_t sequence_length() const { return options_.sequence_length; }
  [[nodiscard]] mds_reader const& reader() const { return reader_; }
  [[nodiscard]] std::span<std::uint64_t const> shard_samples() const { return shard_samples_; }

  /// Writes the first sequence_length() ids of sample `index` to `out`, which has that size. `stop`
  /// is as in mds_reader::sample.
  void sample(std::uint64_t index, std::span<std::int32_t> out,
              std::stop_token const& stop = {}) const;

 private:
  /// Throws: none of the column names `names` is the requested one.
  [[noreturn]] void fail_without_column(std::vector<std::string> const& names) const;

  /// The exclusive upper limit of ids.
  [[nodiscard]] std::int64_t id_limit() const;

  /// Whether every second id is 0 and some other id is not, as if the ids were written in a type
  /// twice as wide.
  template <class Id>
  [[nodiscard]] static bool is_read_too_narrow(std::span<Id> ids) {
    bool has_nonzero = false;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i % 2 == 1 && ids[i] != 0) return false;
      has_nonzero = has_nonzero || ids[i] != 0;
    }
    return has_nonzero && ids.size() >= 8;
  }

  /// Advice for a sample of raw bytes that do not hold valid ids of `raw_type`: names a type with
  /// which they hold enough ids, all below id_limit(); empty if there is no such type.
  [[nodiscard]] std::string advice_on_type(std::string_view bytes) const;

  /// Whether 0 <= value < limit <= 2^31, in arithmetic as narrow as the value.
  template <class Stored>
  [[nodiscard]] static bool is_below(Stored value, std::int64_t limit) {
    if constexpr (sizeof(Stored) == 4 && std::is_integral_v<Stored>)
      return static_cast<std::uint32_t>(value) < static_cast<std::uint32_t>(limit);
    else
      return static_cast<std::int64_t>(value) >= 0 && static_cast<std::int64_t>(value) < limit;
  }

  token_dataset_options options_;
  mds_reader reader_;
  std::vector<std::uint64_t> shard_samples_;
};

}  // namespace mpt::data
