#include <mpt/data/token_dataset.hpp>

#include <algorithm>
#include <utility>

namespace mpt::data {

token_dataset::token_dataset(std::filesystem::path folder, token_dataset_options options)
    : options_(std::move(options)),
      reader_(std::move(folder), {.split = options_.split,
                                  .cache_bytes = options_.cache_bytes,
                                  .cache_shards = std::min<std::size_t>(64, most_open_shards())}) {
  parallel::require(options_.sequence_length > 0, "the sequence length must be positive");
  for (auto const& shard : reader_.shards()) {
    shard_samples_.push_back(shard.samples);
    auto const& names = shard.layout.names;
    auto const column = std::ranges::find(names, options_.column);
    if (column == names.end()) fail_without_ids(names);
    auto const& encoding = shard.layout.encodings[static_cast<std::size_t>(column - names.begin())];
    bool const fits =
        encoding.what == mds_encoding::kind::array || encoding.what == mds_encoding::kind::bytes;
    parallel::require(fits, reader_.folder().native(), ": column '", options_.column,
                      "' has encoding '", encoding.name,
                      "', not an ndarray of ids: tokenise this set with prepare");
  }
}

void token_dataset::sample(std::uint64_t at, std::span<std::int32_t> out) const {
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
          limit, other_type.empty() ? "; the set was prepared with another tokenizer" : other_type);
    }
  });
  if (untyped && is_read_too_narrow(out))
    if (auto const other_type = advice(); !other_type.empty())
      parallel::fail(found.where(), ": every second id of type ", name_of(array.type),
                     " is 0, which are the upper halves of wider ones", other_type);
}

void token_dataset::fail_without_ids(std::vector<std::string> const& names) const {
  std::string there;
  bool text = false;
  for (auto const& name : names) {
    there += (there.empty() ? "'" : ", '") + name + "'";
    text = text || name == "text";
  }
  parallel::fail(reader_.folder().native(), ": has no column '", options_.column,
                 "' of token ids; it has ", there,
                 text ? ": text is not tokenised while a model is trained; make a set of ids of "
                        "the files that it was made of: prepare --tokenizer FOLDER --concat_tokens "
                        "N --out_root NEW_SET FILES"
                      : ": name a set that prepare made of text");
}

std::int64_t token_dataset::id_limit() const {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  return options_.vocab_size > 0 ? std::min(options_.vocab_size, most) : most;
}

std::string token_dataset::advice_on_type(std::string_view bytes) const {
  for (auto const type : {mds_type::int64, mds_type::int32, mds_type::uint16, mds_type::int16}) {
    if (type == options_.raw_type || bytes.size() % size_of(type) != 0) continue;
    mds_array const array{type, {}, bytes};
    if (array.size() < options_.sequence_length) continue;
    auto const ids = array.to<std::int64_t>();
    bool const fits = std::ranges::all_of(ids, [&](auto id) { return id >= 0 && id < id_limit(); });
    if (fits && !is_read_too_narrow(std::span(ids)))
      return parallel::concat("; as ", name_of(type), " they are ", ids.size(), " ids below ",
                              id_limit(), ": set token_encoding_type to ", name_of(type));
  }
  return {};
}

}  // namespace mpt::data
