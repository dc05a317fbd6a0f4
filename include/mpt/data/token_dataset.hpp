// Samples of token ids out of an MDS set: what a language model trains on.
//
// The column holds an ndarray of any integer type ("ndarray:int32" is what prepare writes), or, in
// sets written by older LLM Foundry versions, raw bytes of a type that the set does not say (int64
// unless told). A sample gives its first S ids; shorter ones are an error, for a set prepared for
// another length would otherwise train in silence on something else. Thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <mpt/data/mds_reader.hpp>
#include <parallel/core/tensor.hpp>

namespace mpt::data {

struct token_dataset_options {
  std::uint64_t sequence_length = 2048;
  std::string split{};
  std::string column = "tokens";
  mds_type raw_type = mds_type::int64;  ///< of ids in a `bytes` column (token_encoding_type)
  std::int64_t vocab_size = 0;          ///< ids must be below; 0: only below 2^31
  std::uint64_t cache_bytes = std::uint64_t{1} << 30;  ///< of decompressed shards
};

class token_dataset {
 public:
  /// Opens the set in `folder`. Throws when it has no such column or the column cannot hold ids.
  explicit token_dataset(std::filesystem::path folder, token_dataset_options options)
      : options_(std::move(options)),
        reader_(std::move(folder),
                {.split = options_.split,
                 .cache_bytes = options_.cache_bytes,
                 .cache_shards = std::min<std::size_t>(64, most_open_shards())}) {
    parallel::require(options_.sequence_length > 0, "the sequence length must be positive");
    for (auto const& shard : reader_.shards()) {
      shard_samples_.push_back(shard.samples);
      auto const& encoding = shard.layout.encodings[shard.layout.column(options_.column)];
      bool const fits =
          encoding.what == mds_encoding::kind::array || encoding.what == mds_encoding::kind::bytes;
      parallel::require(fits, reader_.folder().native(), ": column '", options_.column,
                        "' has encoding '", encoding.name,
                        "', not an ndarray of ids: tokenise this set with prepare");
    }
  }

  [[nodiscard]] std::uint64_t size() const { return reader_.size(); }
  [[nodiscard]] std::uint64_t sequence_length() const { return options_.sequence_length; }
  [[nodiscard]] mds_reader const& reader() const { return reader_; }
  [[nodiscard]] std::span<std::uint64_t const> shard_samples() const { return shard_samples_; }

  /// Writes the first sequence_length() ids of sample `at` to `out`, which has that size.
  void sample(std::uint64_t at, std::span<std::int32_t> out) const {
    auto const found = reader_.sample(at);
    auto const& layout = found.layout();
    auto const column = layout.column(options_.column);
    auto const bytes = found.bytes(column);
    mds_array array;
    if (layout.encodings[column].what == mds_encoding::kind::array) {
      array = layout.encodings[column].decode_array(bytes, found.where());
    } else {
      array = {options_.raw_type, {}, bytes};
      parallel::require(bytes.size() % size_of(array.type) == 0, found.where(), ": ", bytes.size(),
                        " bytes are not a whole number of ", name_of(array.type),
                        " ids; set token_encoding_type to what the set was written with");
    }
    parallel::require(array.size() >= out.size(), found.where(), ": has ", array.size(),
                      " ids, fewer than the sequence length ", out.size(),
                      "; lower max_seq_len or prepare the data again with more --concat_tokens");
    parallel::require(!name_of(array.type).starts_with("float"), found.where(), ": ids of type ",
                      name_of(array.type));
    constexpr std::int64_t most = std::int64_t{1} << 31;
    auto const limit = options_.vocab_size > 0 ? std::min(options_.vocab_size, most) : most;
    visit_mds_type(array.type, [&]<class Stored>(Stored) {
      bool good = true;  // looked at once, at the end: so the loop is a vector loop
      for (std::size_t i = 0; i < out.size(); ++i) {
        auto const value = detail::load<Stored>(array.values.data() + i * sizeof(Stored));
        good &= is_below(value, limit);
        out[i] = static_cast<std::int32_t>(value);
      }
      for (std::size_t i = 0; !good && i < out.size(); ++i) {
        auto const value = detail::load<Stored>(array.values.data() + i * sizeof(Stored));
        parallel::require(is_below(value, limit), found.where(), ": id ", value, " at position ", i,
                          " is not below the vocabulary size ", limit,
                          "; the set was prepared with another tokenizer, or has another "
                          "token_encoding_type");
      }
    });
  }

 private:
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
