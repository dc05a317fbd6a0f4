#include <mpt/data/token_dataset.hpp>

#include <algorithm>
#include <utility>

namespace mpt::data {

token_dataset::token_dataset(std::filesystem::path folder, token_dataset_options options)
    : options_(std::move(options)),
      reader_(std::move(folder), {.split = options_.split,
                                  .cache_bytes = options_.cache_bytes,
                                  .cache_shards = std::min<std::size_t>(64, max_open_shards()),
                                  .remote = options_.remote}) {
  parallel::require(options_.sequence_length > 0, "the sequence length must be positive");
  for (auto const& shard : reader_.shards()) {
    shard_samples_.push_back(shard.samples);
    auto const& names = shard.layout.names;
    auto const column = std::ranges::find(names, options_.column);
    if (column == names.end()) fail_without_column(names);
    auto const& encoding = shard.layout.encodings[static_cast<std::size_t>(column - names.begin())];
    bool const fits = encoding.value_kind == mds_encoding::kind::array ||
                      encoding.value_kind == mds_encoding::kind::bytes;
    parallel::require(fits, reader_.folder().native(), ": column '", options_.column,
                      "' has encoding '", encoding.name,
                      "', not an ndarray of ids: tokenise this set with prepare");
  }
}

void token_dataset::sample(std::uint64_t index, std::span<std::int32_t> out,
                           std::stop_token const& stop) const {
  auto const sample = reader_.sample(index, stop);
  auto const& layout = sample.layout();
  auto const column = layout.column(options_.column);
  auto const bytes = sample.bytes(column);
  mds_array array;
  if (layout.encodings[column].value_kind == mds_encoding::kind::array) {
    array = layout.encodings[column].decode_array(bytes, sample.location());
  } else {
    array = {options_.raw_type, {}, bytes};
    parallel::require(bytes.size() % size_of(array.type) == 0, sample.location(), ": ",
                      bytes.size(), " bytes are not a whole number of ", to_string(array.type),
                      " ids; set token_encoding_type to what the set was written with");
  }
  auto const limit = id_limit();
  bool const is_untyped = layout.encodings[column].value_kind == mds_encoding::kind::bytes;
  auto const type_advice = [&] { return is_untyped ? advice_on_type(bytes) : std::string(); };
  if (array.size() < out.size()) {
    auto const other_type = type_advice();
    parallel::fail(sample.location(), ": has ", array.size(), " ids", is_untyped ? " of type " : "",
                   is_untyped ? to_string(array.type) : "", ", fewer than the sequence length ",
                   out.size(),
                   other_type.empty()
                       ? "; lower that (max_seq_len; of evaluate --seq_len) or prepare the data "
                         "again with more --concat_tokens"
                       : other_type);
  }
  parallel::require(!to_string(array.type).starts_with("float"), sample.location(),
                    ": ids of type ", to_string(array.type));
  visit_mds_type(array.type, [&]<class Stored>(Stored) {
    bool all_fit = true;  // tested once, after the loop, so that the compiler vectorises it
    for (std::size_t i = 0; i < out.size(); ++i) {
      auto const value = detail::load<Stored>(array.values.data() + i * sizeof(Stored));
      all_fit &= is_below(value, limit);
      out[i] = static_cast<std::int32_t>(value);
    }
    for (std::size_t i = 0; !all_fit && i < out.size(); ++i) {
      auto const value = detail::load<Stored>(array.values.data() + i * sizeof(Stored));
      if (is_below(value, limit)) continue;
      auto const other_type = type_advice();
      parallel::fail(
          sample.location(), ": id ", value, " at position ", i,
          " is not below the vocabulary size ", limit,
          other_type.empty() ? "; the set was prepared with another tokenizer" : other_type);
    }
  });
  if (is_untyped && is_read_too_narrow(out))
    if (auto const other_type = type_advice(); !other_type.empty())
      parallel::fail(sample.location(), ": every second id of type ", to_string(array.type),
                     " is 0, like the upper halves of ids of a wider type", other_type);
}

void token_dataset::fail_without_column(std::vector<std::string> const& names) const {
  std::string known;
  bool has_text = false;
  for (auto const& name : names) {
    known += (known.empty() ? "'" : ", '") + name + "'";
    has_text = has_text || name == "text";
  }
  parallel::fail(
      reader_.folder().native(), ": has no column '", options_.column, "' of token ids; it has ",
      known,
      has_text ? ": training does not tokenise text; make a set of ids from the original "
                 "files: prepare --tokenizer FOLDER --concat_tokens N --out_root NEW_SET FILES"
               : ": name a set that prepare made of text");
}

std::int64_t token_dataset::id_limit() const {
  constexpr std::int64_t max_limit = std::int64_t{1} << 31;
  return options_.vocab_size > 0 ? std::min(options_.vocab_size, max_limit) : max_limit;
}

std::string token_dataset::advice_on_type(std::string_view bytes) const {
  for (auto const type : {mds_type::int64, mds_type::int32, mds_type::uint16, mds_type::int16}) {
    if (type == options_.raw_type || bytes.size() % size_of(type) != 0) continue;
    mds_array const array{type, {}, bytes};
    if (array.size() < options_.sequence_length) continue;
    auto const ids = array.to<std::int64_t>();
    bool const fits = std::ranges::all_of(ids, [&](auto id) { return id >= 0 && id < id_limit(); });
    if (fits && !is_read_too_narrow(std::span(ids)))
      return parallel::concat("; as ", to_string(type), " they are ", ids.size(), " ids below ",
                              id_limit(), ": set token_encoding_type to ", to_string(type));
  }
  return {};
}

}  // namespace mpt::data
