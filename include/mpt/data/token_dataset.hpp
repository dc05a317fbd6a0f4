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
#include <string_view>
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
      auto const& names = shard.layout.names;
      auto const column = std::ranges::find(names, options_.column);
      if (column == names.end()) fail_without_ids(names);
      auto const& encoding =
          shard.layout.encodings[static_cast<std::size_t>(column - names.begin())];
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
    auto const limit = id_limit();
    bool const untyped = layout.encodings[column].what == mds_encoding::kind::bytes;
    auto const advice = [&] { return untyped ? advice_on_type(bytes) : std::string(); };
    if (array.size() < out.size()) {
      auto const other_type = advice();
      parallel::fail(found.where(), ": has ", array.size(), " ids", untyped ? " of type " : "",
                     untyped ? name_of(array.type) : "", ", fewer than the sequence length ",
                     out.size(),
                     other_type.empty()
                         ? "; lower max_seq_len or prepare the data again with more --concat_tokens"
                         : other_type);
    }
    parallel::require(!name_of(array.type).starts_with("float"), found.where(), ": ids of type ",
                      name_of(array.type));
    visit_mds_type(array.type, [&]<class Stored>(Stored) {
      bool good = true;  // looked at once, at the end: so the loop is a vector loop
      for (std::size_t i = 0; i < out.size(); ++i) {
        auto const value = detail::load<Stored>(array.values.data() + i * sizeof(Stored));
        good &= is_below(value, limit);
        out[i] = static_cast<std::int32_t>(value);
      }
      for (std::size_t i = 0; !good && i < out.size(); ++i) {
        auto const value = detail::load<Stored>(array.values.data() + i * sizeof(Stored));
        if (is_below(value, limit)) continue;
        auto const other_type = advice();
        parallel::fail(
            found.where(), ": id ", value, " at position ", i, " is not below the vocabulary size ",
            limit,
            other_type.empty() ? "; the set was prepared with another tokenizer" : other_type);
      }
    });
    if (untyped && is_read_too_narrow(out))
      if (auto const other_type = advice(); !other_type.empty())
        parallel::fail(found.where(), ": every second id of type ", name_of(array.type),
                       " is 0, which are the upper halves of wider ones", other_type);
  }

 private:
  [[noreturn]] void fail_without_ids(std::vector<std::string> const& names) const {
    std::string there;
    bool text = false;
    for (auto const& name : names) {
      there += (there.empty() ? "'" : ", '") + name + "'";
      text = text || name == "text";
    }
    parallel::fail(
        reader_.folder().native(), ": has no column '", options_.column, "' of token ids; it has ",
        there,
        text ? ": text is not tokenised while a model is trained; make a set of ids of "
               "the files that it was made of: prepare --tokenizer FOLDER --concat_tokens "
               "N --out_root NEW_SET FILES"
             : ": name a set that prepare made of text");
  }

  /// Ids must be below.
  [[nodiscard]] std::int64_t id_limit() const {
    constexpr std::int64_t most = std::int64_t{1} << 31;
    return options_.vocab_size > 0 ? std::min(options_.vocab_size, most) : most;
  }

  /// Whether every second id is 0 and another is not, as where ids are of a type twice as wide.
  template <class Id>
  [[nodiscard]] static bool is_read_too_narrow(std::span<Id> ids) {
    bool other = false;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i % 2 == 1 && ids[i] != 0) return false;
      other = other || ids[i] != 0;
    }
    return other && ids.size() >= 8;
  }

  /// The type by which the bytes of a sample, of a type that the set does not say, are as many ids
  /// as it takes, all of them in the vocabulary; or "".
  [[nodiscard]] std::string advice_on_type(std::string_view bytes) const {
    for (auto const type : {mds_type::int64, mds_type::int32, mds_type::uint16, mds_type::int16}) {
      if (type == options_.raw_type || bytes.size() % size_of(type) != 0) continue;
      mds_array const array{type, {}, bytes};
      if (array.size() < options_.sequence_length) continue;
      auto const ids = array.to<std::int64_t>();
      bool const fits =
          std::ranges::all_of(ids, [&](auto id) { return id >= 0 && id < id_limit(); });
      if (fits && !is_read_too_narrow(std::span(ids)))
        return parallel::concat("; as ", name_of(type), " they are ", ids.size(), " ids below ",
                                id_limit(), ": set token_encoding_type to ", name_of(type));
    }
    return {};
  }

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
